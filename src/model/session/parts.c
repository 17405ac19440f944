/* parts.c: matrices over several processes: each part of a group has some rows of every wide matrix, computes the
 * columns of results that these give, and gets the others' (section 22 of the manual, docs/pipeline.md).
 *
 * Owns:  which matrices are cut and where (infer__parts_cut), products with them, the exchange after each.
 * How:   a product's results are computed to a block of this part: for each cut matrix all rows of its columns. The
 *        blocks of all parts, one after the other, are what context_params.gather exchanges; then they are copied to
 *        where the results belong. Everything else (norms, attention, caches, narrow matrices) is computed by every
 *        part alike.
 * Rules: an element of a product depends on one row of the matrix alone, so cuts between rows leave all bits as they
 *        are; nothing is cut along K, since sums have one order. An activation is computed before the exchange where
 *        gate and up are cut at the same rows; what else follows a product runs after it, on whole rows. All parts
 *        make the same exchanges in the same order: nothing that happens in one part alone (a cancelled eval, a pause
 *        of a slice) may end a pass in between.
 * Start: infer__parts_matmul.
 */
#include "../model.h"

enum {
    INFER__CUT_ROWS = 16,         /* cuts are at multiples: rows that kernels do together */
    INFER__CUT_LEAST = 1 << 20    /* bytes of a matrix that is worth an exchange: what memory gives in about 5 us */
};

/* Slots whose weights only products read. */
static const int16_t INFER__CUT_SLOTS[] = {
    INFER__W_ATTN_QKV, INFER__W_ATTN_Q, INFER__W_ATTN_K, INFER__W_ATTN_V, INFER__W_ATTN_OUT, INFER__W_ATTN_GATE,
    INFER__W_FFN_GATE, INFER__W_FFN_UP, INFER__W_FFN_DOWN,
    INFER__W_MOE_LATENT_IN, INFER__W_MOE_LATENT_OUT, INFER__W_SHARED_GATE, INFER__W_SHARED_UP, INFER__W_SHARED_DOWN,
    INFER__W_SHORTCONV_IN, INFER__W_SHORTCONV_OUT, INFER__W_SSM_IN, INFER__W_SSM_OUT,
    INFER__W_LATENT_Q, INFER__W_LATENT_Q_A, INFER__W_LATENT_Q_B, INFER__W_LATENT_OUT, INFER__W_LATENT_GATE,
    INFER__W_DELTA_QKV, INFER__W_DELTA_GATE, INFER__W_DELTA_OUT,
    INFER__W_KDA_Q, INFER__W_KDA_K, INFER__W_KDA_V, INFER__W_KDA_OUT,
    INFER__W_LIGHTNING_QKV, INFER__W_LIGHTNING_GATE, INFER__W_LIGHTNING_OUT,
    INFER__W_TIME_KEY, INFER__W_TIME_VALUE, INFER__W_TIME_R, INFER__W_TIME_OUT, INFER__W_TIME_GATE,
    INFER__W_CHANNEL_R, INFER__W_CHANNEL_KEY, INFER__W_CHANNEL_VALUE,
    INFER__W_COMPRESSED_Q_A, INFER__W_COMPRESSED_Q_B, INFER__W_COMPRESSED_KV, INFER__W_COMPRESSED_OUT_B,
    INFER__W_CROSS_Q, INFER__W_CROSS_K, INFER__W_CROSS_V, INFER__W_CROSS_OUT };
/* And those of experts: a matrix for each, or for each group of them. */
static const int16_t INFER__CUT_EXPERTS[] = {
    INFER__W_MOE_GATE, INFER__W_MOE_UP, INFER__W_MOE_GATE_UP, INFER__W_MOE_DOWN };
static const int16_t INFER__CUT_GROUPS[] = { INFER__W_GROUP_GATE, INFER__W_GROUP_UP, INFER__W_GROUP_DOWN };

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static infer_result infer__parts_check(infer_model *m, infer_error *err) {
    const infer_model_params *p = &m->params;
    m->part = 0;
    m->parts = 1;
    if (m->stack.kind || (!p->part && !p->parts)) return INFER_OK;
    if (!INFER__HAS_RANGES) return infer__left_out(err, "parts of models", "INFER_NO_RANGES");
    if (p->parts < 0 || p->parts > INFER__PARTS_MOST || p->part < 0 || p->part >= INFER__MAX(p->parts, 1))
        return infer__error(err, INFER_ERR_ARGUMENT, "part %d of %d: there are at most %d, from 0 on", (int)p->part,
                            (int)p->parts, INFER__PARTS_MOST);
    m->part = p->part;
    m->parts = INFER__MAX(p->parts, 1);
    if (m->parts == 1) return INFER_OK;
    m->part_least = p->part_least ? p->part_least : INFER__CUT_LEAST;
    if (p->device || p->devices[0] || p->gpu_layers > 0 || (p->backend != INFER_AUTO && p->backend != INFER_CPU))
        return infer__error(err, INFER_ERR_UNSUPPORTED, "a GPU, with matrices in parts: these are for the CPU");
    if (p->projector && m->hp.n_deepstack)
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "pictures that go to layers 0 to %d (deepstack), with matrices in parts",
                            (int)m->hp.n_deepstack - 1);
    return INFER_OK;
}

/* Rows [lo, hi) of a matrix are part's. */
static void infer__cut_run(int32_t rows, int32_t parts, int32_t part, int32_t *lo, int32_t *hi) {
    const int64_t n = (rows + INFER__CUT_ROWS - 1) / INFER__CUT_ROWS;
    *lo = (int32_t)INFER__MIN(n * part / parts * INFER__CUT_ROWS, (int64_t)rows);
    *hi = (int32_t)INFER__MIN(n * (part + 1) / parts * INFER__CUT_ROWS, (int64_t)rows);
}

/* 1 when matrices of so many rows, of which a token reads `used`, are worth an exchange. */
static int infer__cut_pays(const infer_model *m, const infer__weight *w, int32_t rows, int32_t used) {
    return rows >= INFER__CUT_ROWS * m->parts && w->row_bytes * (uint64_t)rows * (uint64_t)used >= m->part_least;
}

/* Cut a weight of `n` matrices, which is whole. */
static void infer__cut_rows(const infer_model *m, infer__weight *w, int32_t n) {
    int32_t hi;
    w->each = w->rows / n;
    infer__cut_run(w->each, m->parts, m->part, &w->here, &hi);
    w->held = hi - w->here;
    w->step = w->each;
    if (w->data) w->data = (const char *)w->data + (uint64_t)w->here * w->row_bytes;
}

/* The same, and its tensor. */
static void infer__cut_tensor(infer_model *m, infer__weight *w, int32_t n, int32_t used) {
    infer__gguf_tensor *t;
    if (!w->type || !w->tensor || n < 1 || w->rows % n || !infer__cut_pays(m, w, w->rows / n, used)) return;
    infer__cut_rows(m, w, n);
    t = &m->gguf.tensors[w->tensor - 1];
    t->every = w->row_bytes * (uint64_t)w->each;
    t->from = w->row_bytes * (uint64_t)w->here;
    t->some = w->row_bytes * (uint64_t)w->held;
}

/* 1 when the head is the embedding, which part 0 has whole. */
static int infer__parts_tied(const infer_model *m) { return !m->w[INFER__W_OUTPUT].type && !m->hp.encoder; }

static int infer__parts_head_pays(const infer_model *m) {
    const infer__weight *w = &m->w[infer__parts_tied(m) ? INFER__W_TOKEN_EMBD : INFER__W_OUTPUT];
    return m->parts > 1 && !m->first && !m->hp.encoder && w->type && infer__cut_pays(m, w, w->rows, 1);
}

/* 1 when this part has a weight of the model's own, or rows of it: part 0 alone has what embeds, norms before the head
 * and what gives vectors of texts. */
static int infer__parts_slot(const infer_model *m, int32_t slot) {
    if (m->part == 0) return 1;
    if (slot == INFER__W_OUTPUT || slot == INFER__W_OUTPUT_B) return infer__parts_head_pays(m);
    if (slot == INFER__W_TOKEN_EMBD) return infer__parts_tied(m) && infer__parts_head_pays(m);
    return !(slot <= INFER__W_EMBD_NORM_B || slot == INFER__W_OUT_NORM || slot == INFER__W_OUT_NORM_B ||
             (slot >= INFER__W_CLS && slot <= INFER__W_DENSE_3));
}

static void infer__parts_cut(infer_model *m) {
    const int32_t experts = m->hp.n_expert, groups = infer__expert_groups(&m->hp), used = m->hp.n_used;
    int32_t i;
    size_t s;
    if (m->parts == 1) return;
    for (i = m->first; i < m->end; i++) {
        infer__weight *w = m->layers[i].w;
        for (s = 0; s < INFER__COUNT(INFER__CUT_SLOTS); s++) infer__cut_tensor(m, &w[INFER__CUT_SLOTS[s]], 1, 1);
        for (s = 0; s < INFER__COUNT(INFER__CUT_EXPERTS); s++)
            infer__cut_tensor(m, &w[INFER__CUT_EXPERTS[s]], experts, used);
        for (s = 0; s < INFER__COUNT(INFER__CUT_GROUPS); s++)
            infer__cut_tensor(m, &w[INFER__CUT_GROUPS[s]], groups, used);
    }
    if (!infer__parts_head_pays(m)) return;
    if (!infer__parts_tied(m)) infer__cut_tensor(m, &m->w[INFER__W_OUTPUT], 1, 1);
    else if (m->part) infer__cut_tensor(m, &m->w[INFER__W_TOKEN_EMBD], 1, 1);
    m->cut_head = 1;
}

/* The head that is the embedding, of part 0. */
static void infer__parts_head_tied(infer_model *m) {
    if (m->cut_head && !m->w[INFER__W_OUTPUT].each) infer__cut_rows(m, &m->w[INFER__W_OUTPUT], 1);
}

static void infer__cut_loaded(const infer__gguf_tensor *t, infer__weight *w) {
    if (!w->each) return;
    if (t->owned) w->step = w->held; /* read without the rows in between */
    else w->data = (const char *)w->data + t->from;
}

static infer__weight infer__cut_slice(const infer__weight *w, int32_t first, int32_t n) {
    infer__weight s = *w;
    const int32_t lo = INFER__MAX(w->here, w->first + first);
    const int32_t hi = INFER__MIN(w->here + w->held, w->first + first + n);
    s.rows = n;
    s.first += first;
    s.held = INFER__MAX(hi - lo, 0);
    if (!s.held) return s;
    s.here = lo;
    if (w->data) s.data = (const char *)w->data + (uint64_t)(lo - w->here) * w->row_bytes;
    return s;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Results of a product are in the work area, or as wide as the model. */
static uint64_t infer__parts_bytes(const infer__plan *p, const infer_model *m) {
    return INFER__HAS_RANGES && m->parts > 1 ? INFER__MAX(p->work_bytes, p->x_bytes) : 0;
}

static infer_result infer__parts_context(const infer_model *m, const infer_context_params *in, infer_error *err) {
    if (!INFER__HAS_RANGES || m->parts == 1 || (in && in->gather && (in->share || infer__follows(m)))) return INFER_OK;
    return infer__error(err, INFER_ERR_ARGUMENT,
                        "context_params.%s is NULL: the matrices are in %d parts, and this one does not have all rows",
                        in && in->gather ? "share" : "gather", (int)m->parts);
}

/* ---- an exchange ------------------------------------------------------------------------------------------------- */

/* Up to three products of one op whose results are exchanged together. */
typedef struct infer__cut_op {
    int32_t n, rows, direct; /* rows of each y; direct: the only row is computed in its place */
    infer__weight w[3];      /* this part's rows */
    infer__tensor y[3], own[3];
    const infer__weight *of[3];
    size_t first[INFER__PARTS_MOST + 1];
} infer__cut_op;

/* The columns of w's results that a part gives: at .. at + returned - 1. */
static int32_t infer__cut_cols(const infer_model *m, const infer__weight *w, int32_t part, int32_t *at) {
    const int32_t n = INFER__MIN(w->rows, w->each);
    int32_t lo, hi;
    infer__cut_run(w->each, m->parts, part, &lo, &hi);
    lo = INFER__MIN(INFER__MAX(lo - w->first, 0), n);
    hi = INFER__MIN(INFER__MAX(hi - w->first, 0), n);
    *at = lo;
    return hi - lo;
}

/* One more product, with matrices that are cut. */
static void infer__cut_add(infer__cut_op *op, const infer__weight *w, const infer__tensor *y) {
    op->of[op->n] = w;
    op->y[op->n] = *y;
    op->rows = y->rows;
    op->n++;
}

/* The rows of w that are here, as a matrix (or one of each expert) of their own. */
static infer__weight infer__cut_own(const infer__weight *w) {
    const int32_t more = w->rows > w->each ? w->rows / w->each - 1 : 0;
    infer__weight own = *w;
    own.each = 0;
    own.rows = more * w->step + w->held;
    return own;
}

/* All of them are there: where each gives its results. */
static void infer__cut_begin(infer_context *c, infer__cut_op *op) {
    const infer_model *m = c->model;
    uint64_t at;
    int32_t p, j, col;
    for (op->first[0] = 0, p = 0; p < m->parts; p++) {
        uint64_t cols = 0;
        for (j = 0; j < op->n; j++) cols += (uint64_t)infer__cut_cols(m, op->of[j], p, &col);
        op->first[p + 1] = op->first[p] + (size_t)(cols * (uint64_t)op->rows);
    }
    op->direct = op->n == 1 && op->rows == 1;
    INFER__ASSERT(op->direct || op->first[m->parts] * sizeof(float) <= c->gathered.bytes);
    for (j = 0, at = op->first[m->part]; j < op->n; j++) {
        const int32_t n = infer__cut_cols(m, op->of[j], m->part, &col);
        INFER__ASSERT(n == op->of[j]->held);
        op->w[j] = infer__cut_own(op->of[j]);
        op->own[j] = op->direct ? infer__columns(&op->y[j], col, n) : infer__view(&c->gathered, at, op->rows, n);
        at += (uint64_t)op->rows * (uint64_t)n;
    }
}

/* Exchange them; the results of all parts to y, in part `to` alone unless that is below 0. */
static void infer__cut_end(infer_context *c, infer__cut_op *op, int32_t to) {
    const infer_model *m = c->model;
    const double began = infer__op_begin(&c->ctx);
    const float *from;
    infer_error e;
    infer_result r;
    int32_t p, j, i, col;
    float *values;
    if (began < 0) return;
    infer__error_clear(&e);
    values = op->direct ? infer__row(&op->y[0], 0) : (float *)c->gathered.host;
    r = c->gather(c->parts_user, values, op->first, to, &e);
    if (r) infer__fail(&c->ctx, r, "%s", e.message[0] ? e.message : "the exchange with other parts failed");
    for (p = 0; p < m->parts && !r && !op->direct && (to < 0 || to == m->part); p++)
        for (j = 0, from = values + op->first[p]; j < op->n; j++) {
            const int32_t n = infer__cut_cols(m, op->of[j], p, &col);
            for (i = 0; i < op->rows; i++, from += n)
                if (n) memcpy(infer__row(&op->y[j], i) + col, from, (size_t)n * sizeof *from);
        }
    infer__op_end(&c->ctx, "gather", op->first[m->parts] * sizeof(float), began);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* 1 when this part's columns of gate (NULL = none) and up are the same, and their activation needs no others. */
static int infer__cut_folds(const infer__act_args *a, const infer__weight *up, const infer__weight *gate) {
    return a && !a->divide && a->x.cols == a->y.cols && up->each &&
           (!gate || (gate->each == up->each && gate->first == up->first && gate->rows == up->rows));
}

/* The activation of them: of `gate` (buf NULL: of up), to up. */
static void infer__cut_act(infer_context *c, const infer__act_args *a, const infer__tensor *gate,
                           const infer__tensor *up) {
    infer__act_args own = *a;
    own.x = gate->buf ? *gate : *up;
    if (a->up.buf) own.up = *up;
    own.y = *up;
    if (up->cols) infer__ops_of(&c->ctx)->act(&c->ctx, &own);
}

static void infer__parts_products(infer_context *c, const infer__matmul_args *mm, int32_t to) {
    const int folds = mm->n_w <= 2 && infer__cut_folds(mm->act, mm->w[0], mm->n_w == 2 ? mm->w[1] : NULL);
    infer__matmul_args own = *mm;
    infer__weight bias[3], gate;
    infer__tensor y, gated;
    infer__cut_op op;
    int32_t j, k, col;
    INFER__ASSERT(!mm->low);
    op.n = 0;
    memset(&gated, 0, sizeof gated);
    for (j = 0; j < mm->n_w; j++)
        if (mm->w[j]->each && !(folds && j)) infer__cut_add(&op, mm->w[j], &mm->y[j]);
    infer__cut_begin(c, &op);
    if (mm->norm) infer__ops_of(&c->ctx)->norm(&c->ctx, mm->norm);
    own.norm = NULL;
    own.act = NULL;
    own.add = NULL;
    own.next = NULL;
    for (own.n_w = j = k = 0; j < mm->n_w; j++) {
        const infer__weight *w = mm->w[j], *b = mm->b[j];
        y = mm->y[j];
        if (w->each) {
            infer__cut_cols(c->model, w, c->model->part, &col);
            if (b) bias[j] = infer__slice(b, col, w->held);
            if (b) b = &bias[j];
            if (folds && j) {
                gate = infer__cut_own(w);
                y = gated = infer__columns(&y, col, w->held);
                w = &gate;
            } else {
                y = op.own[k];
                w = &op.w[k++];
            }
        }
        if (!w->rows) continue;
        own.w[own.n_w] = w;
        own.b[own.n_w] = b;
        own.y[own.n_w++] = y;
    }
    if (own.n_w) infer__matmul(&c->ctx, &own);
    if (folds) infer__cut_act(c, mm->act, &gated, &op.own[0]);
    infer__cut_end(c, &op, to);
    if (mm->act && !folds) infer__ops_of(&c->ctx)->act(&c->ctx, mm->act);
    if (mm->add) infer__ops_of(&c->ctx)->add(&c->ctx, mm->add);
}

static int infer__parts_matmul(infer_context *c, const infer__matmul_args *mm) {
    int32_t j;
    for (j = 0; j < mm->n_w && !mm->w[j]->each; j++) {}
    if (j == mm->n_w) return 0;
    infer__parts_products(c, mm, -1);
    return 1;
}

/* A product with experts, alone: all rows, or this part's (w) to y. */
static void infer__parts_expert(infer_context *c, const infer__moe_matmul_args *a, const infer__weight *w,
                                const infer__tensor *y) {
    infer__moe_matmul_args own = *a;
    own.bias = NULL;
    own.gate = NULL;
    own.act = NULL;
    own.add = NULL;
    if (a->w->each) {
        own.rows = a->w->held;
        own.step = a->w->step;
        own.y = *y;
        own.w = w;
    }
    infer__moe_matmul(&c->ctx, &own);
}

static int infer__parts_moe(infer_context *c, const infer__moe_matmul_args *a) {
    const infer__moe_matmul_args *gate = a->gate;
    const int folds = gate && !a->bias && !gate->bias && infer__cut_folds(a->act, a->w, gate->w);
    infer__weight own;
    infer__tensor gated;
    infer__cut_op op;
    int32_t col;
    op.n = 0;
    if (a->w->each) infer__cut_add(&op, a->w, &a->y);
    if (gate && gate->w->each && !folds) infer__cut_add(&op, gate->w, &gate->y);
    if (!op.n) return 0;
    infer__cut_begin(c, &op);
    infer__parts_expert(c, a, &op.w[0], &op.own[0]); /* of the first that is cut, if a's is */
    if (folds) {
        infer__cut_cols(c->model, gate->w, c->model->part, &col);
        own = infer__cut_own(gate->w);
        gated = infer__columns(&gate->y, col, gate->w->held);
        infer__parts_expert(c, gate, &own, &gated);
        infer__cut_act(c, a->act, &gated, &op.own[0]);
    } else if (gate) infer__parts_expert(c, gate, &op.w[op.n - 1], &op.own[op.n - 1]);
    infer__cut_end(c, &op, -1);
    if (a->bias) infer__ops_of(&c->ctx)->moe_bias(&c->ctx, a->bias);
    if (gate && gate->bias) infer__ops_of(&c->ctx)->moe_bias(&c->ctx, gate->bias);
    if (a->act && !folds) infer__ops_of(&c->ctx)->act(&c->ctx, a->act);
    if (a->add) infer__ops_of(&c->ctx)->add(&c->ctx, a->add);
    return 1;
}

/* The head's results are part 0's. */
static void infer__parts_head(infer_context *c, const infer__tensor *x, const infer__tensor *y) {
    infer__matmul_args mm;
    memset(&mm, 0, sizeof mm);
    mm.x = *x;
    mm.n_w = 1;
    mm.w[0] = &c->model->w[INFER__W_OUTPUT];
    mm.b[0] = infer__opt(&c->model->w[INFER__W_OUTPUT_B]);
    mm.y[0] = *y;
    infer__parts_products(c, &mm, 0);
}
