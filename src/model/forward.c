/* forward.c: THE LOOP: one pass of a batch of rows through the layers. The first page to read.
 *
 * A batch is always n rows: a prompt, one token, several sessions run the same code with different n. Rows differ by
 * their fields in ctx.pass (id, position, sequence, page table). Layers run on the CPU or on a GPU; the residual stream
 * is copied where the device changes. Ops report failure in ctx.error, which is checked once, at the end. Nothing is
 * allocated here, except for reading values back from a GPU (trace, checking). A GPU may record a whole pass and replay
 * it: then no op is called.
 */
#include "model.h"

static infer__tensor infer__view(infer__buf *b, uint64_t first_float, int32_t rows, int32_t cols) {
    infer__tensor t;
    t.buf = b;
    t.offset = first_float * sizeof(float);
    t.rows = rows;
    t.cols = t.stride = cols;
    return t;
}

static infer__tensor infer__columns(const infer__tensor *t, int32_t first, int32_t n) {
    infer__tensor part = *t;
    part.offset += (uint64_t)first * sizeof(float);
    part.cols = n;
    return part;
}

/* The values of t on the host, without gaps between rows; NULL after a failure. */
static const float *infer__peek(infer_context *c, const infer__tensor *t) {
    uint64_t n = (uint64_t)t->rows * (uint64_t)t->cols;
    float *p;
    if (!infer__ok(&c->ctx)) return NULL;
    if (t->buf->host) return infer__row(t, 0);
    if (n > c->peek_len) {
        p = (float *)infer__realloc(c->ctx.mem, c->peek, n, sizeof *p);
        if (!p) {
            infer__fail(&c->ctx, INFER_ERR_MEMORY, "no memory to look at %d rows of %d values", (int)t->rows,
                        (int)t->cols);
            return NULL;
        }
        c->peek = p;
        c->peek_len = n;
    }
    infer__ops_of(&c->ctx)->download(&c->ctx, t->buf, t->offset, c->peek, n * sizeof *c->peek);
    infer__ops_of(&c->ctx)->sync(&c->ctx);
    return infer__ok(&c->ctx) ? c->peek : NULL;
}

static void infer__trace(infer_context *c, int32_t layer, const char *step, const infer__tensor *t) {
    const float *x = c->trace ? infer__peek(c, t) : NULL;
    if (x) c->trace(c->trace_user, layer, step, x, (size_t)t->rows, (size_t)t->cols);
}

/* y = norm(x) with the weights in `slots` (weight, bias); without a weight a bare norm. */
static infer__norm_args infer__norm_of(const infer_context *c, const infer__weight *slots, const infer__tensor *x,
                                       const infer__tensor *y) {
    infer__norm_args a;
    memset(&a, 0, sizeof a);
    a.x = *x;
    a.y = *y;
    a.weight = infer__opt(&slots[0]);
    a.bias = infer__opt(&slots[1]);
    a.kind = c->model->hp.norm;
    a.n_groups = 1;
    a.eps = c->model->hp.eps;
    return a;
}

static void infer__norm_to(infer_context *c, const infer__weight *slots, const infer__tensor *x,
                           const infer__tensor *y) {
    infer__norm_args a = infer__norm_of(c, slots, x, y);
    infer__ops_of(&c->ctx)->norm(&c->ctx, &a);
}

static void infer__sublayer_norm(infer_context *c, infer__sublayer *s) {
    if (s->norm) infer__ops_of(&c->ctx)->norm(&c->ctx, s->norm);
    s->norm = NULL;
}

static void infer__sublayer_add(infer_context *c, const infer__sublayer *s) {
    if (s->add) infer__ops_of(&c->ctx)->add(&c->ctx, s->add);
}

static void infer__clamp_rows(infer_context *c, const float *range, const infer__tensor *t) {
    infer__map_args a;
    memset(&a, 0, sizeof a);
    a.x = *t;
    a.scale = 1;
    a.range = range;
    infer__ops_of(&c->ctx)->map(&c->ctx, &a);
}

/* Products whose inputs and results are clamped, each by its own range. */
static void infer__products_clamped(infer_context *c, const infer__matmul_args *mm) {
    infer__tensor x = infer__pass_kept(c, c->ctx.pass.n_rows, c->model->hp.pass_kept - c->model->stack.ranged,
                                       mm->x.rows, mm->x.cols);
    infer__matmul_args one;
    int32_t i;
    if (mm->norm) infer__ops_of(&c->ctx)->norm(&c->ctx, mm->norm);
    for (i = 0; i < mm->n_w; i++) {
        memset(&one, 0, sizeof one);
        one.x = mm->x;
        one.n_w = 1;
        one.w[0] = mm->w[i];
        one.b[0] = mm->b[i];
        one.y[0] = mm->y[i];
        if (mm->w[i]->range) {
            infer__copy_rows(c, &mm->x, &x);
            infer__clamp_rows(c, mm->w[i]->range, &x);
            one.x = x;
        }
        infer__matmul(&c->ctx, &one);
        if (mm->w[i]->range) infer__clamp_rows(c, mm->w[i]->range + 2, &mm->y[i]);
    }
    if (mm->act) infer__ops_of(&c->ctx)->act(&c->ctx, mm->act);
    if (mm->add) infer__ops_of(&c->ctx)->add(&c->ctx, mm->add);
}

static void infer__multiply(infer_context *c, const infer__matmul_args *mm) {
    if (!c->gather || !infer__parts_matmul(c, mm)) infer__matmul(&c->ctx, mm);
}

/* result: as in infer__adapted_parts. */
static void infer__products_of(infer_context *c, const infer__matmul_args *mm, int32_t result) {
    infer__matmul_args own = *mm;
    infer__low_args lows; /* of n_adapted */
    int32_t i, low = 0, more = 0, taken = 0;
    if (c->model->stack.ranged) {
        infer__products_clamped(c, mm);
        return;
    }
    if (c->inputs) {
        if (own.norm) infer__ops_of(&c->ctx)->norm(&c->ctx, own.norm);
        own.norm = NULL;
        infer__give_products(c, mm);
    }
    for (i = 0; i < mm->n_w; i++) low |= mm->w[i]->low != NULL;
    if (INFER__HAS_ADAPTERS && c->n_adapted) {
        more = infer__adapted_parts(c, mm, result, 0, &lows);
        taken = lows.n_parts;
        if (taken) own.low = &lows;
    }
    if (!low && !more) {
        infer__multiply(c, &own);
        return;
    }
    if (own.norm) infer__ops_of(&c->ctx)->norm(&c->ctx, own.norm);
    own.norm = NULL;
    own.act = NULL;
    own.add = NULL;
    infer__multiply(c, &own);
    for (; INFER__HAS_ADAPTERS && more; taken += lows.n_parts) { /* those that did not fit */
        more = infer__adapted_parts(c, mm, result, taken, &lows);
        infer__ops_of(&c->ctx)->low(&c->ctx, &lows);
    }
    for (i = 0; i < mm->n_w; i++)
        if (mm->w[i]->low) infer__switch_add(c, &mm->x, mm->w[i], &mm->y[i]);
    if (mm->act) infer__ops_of(&c->ctx)->act(&c->ctx, mm->act);
    if (mm->add) infer__ops_of(&c->ctx)->add(&c->ctx, mm->add);
}

static void infer__products(infer_context *c, const infer__matmul_args *mm) { infer__products_of(c, mm, -1); }

static void infer__moe_products(infer_context *c, const infer__moe_matmul_args *a) {
    infer__moe_matmul_args own = *a;
    if (c->inputs) infer__give_experts(c, a);
    if (!INFER__HAS_ADAPTERS || !c->n_adapted ||
        (!infer__adapted_weight(c, a->w) && !(a->gate && infer__adapted_weight(c, a->gate->w)))) {
        if (c->inputs && a->gate) infer__give_experts(c, a->gate);
        if (!c->gather || !infer__parts_moe(c, a)) infer__moe_matmul(&c->ctx, a);
        return;
    }
    own.bias = NULL;
    own.gate = NULL;
    own.act = NULL;
    own.add = NULL;
    infer__moe_matmul(&c->ctx, &own);
    infer__adapted_experts(c, &own);
    if (a->bias) infer__ops_of(&c->ctx)->moe_bias(&c->ctx, a->bias);
    if (a->gate) infer__moe_products(c, a->gate);
    if (a->act) infer__ops_of(&c->ctx)->act(&c->ctx, a->act);
    if (a->add) infer__ops_of(&c->ctx)->add(&c->ctx, a->add);
}

static void infer__product(infer_context *c, const infer__tensor *x, const infer__weight *w, const infer__weight *b,
                           const infer__tensor *y) {
    infer__matmul_args mm;
    memset(&mm, 0, sizeof mm);
    mm.x = *x;
    mm.n_w = 1;
    mm.w[0] = w;
    mm.b[0] = b;
    mm.y[0] = *y;
    infer__products(c, &mm);
}

static void infer__last_product(infer_context *c, const infer__tensor *x, const infer__weight *w,
                                const infer__weight *b, float scale, const infer__sublayer *s) {
    infer__matmul_args mm;
    memset(&mm, 0, sizeof mm);
    mm.x = *x;
    mm.n_w = 1;
    mm.w[0] = w;
    mm.b[0] = b;
    mm.y[0] = s->out;
    mm.add = scale == 1 ? s->add : NULL;
    infer__products(c, &mm);
    if (scale == 1) return;
    infer__scale_rows(c, scale, &s->out);
    infer__sublayer_add(c, s);
}

static void infer__gate(infer_context *c, int32_t act, const infer__tensor *gate, const infer__tensor *y) {
    infer__act_args a;
    memset(&a, 0, sizeof a);
    a.x = *gate;
    a.up = a.y = *y;
    a.kind = act;
    infer__ops_of(&c->ctx)->act(&c->ctx, &a);
}

static void infer__act_rows(infer_context *c, int32_t kind, const infer__tensor *x, const infer__tensor *y) {
    infer__act_args a;
    memset(&a, 0, sizeof a);
    a.x = *x;
    a.y = *y;
    a.kind = kind;
    infer__ops_of(&c->ctx)->act(&c->ctx, &a);
}

static void infer__product_act(infer_context *c, const infer__tensor *x, int32_t kind, const infer__weight *w,
                               const infer__tensor *y) {
    infer__product(c, x, w, NULL, y);
    if (kind != INFER__ACT_LINEAR) infer__act_rows(c, kind, y, y);
}

static void infer__add_scaled(infer_context *c, const infer__tensor *x, float scale, const infer__tensor *y) {
    infer__add_args add;
    add.x = *x;
    add.y = *y;
    add.scale = scale;
    infer__ops_of(&c->ctx)->add(&c->ctx, &add);
}

static void infer__add_to(infer_context *c, const infer__tensor *x, const infer__tensor *y) {
    infer__add_scaled(c, x, 1, y);
}

static infer__norm_args infer__slot_norm_of(const infer_context *c, const infer__layer *l, int slot, int32_t groups,
                                            const infer__tensor *x, const infer__tensor *y) {
    infer__norm_args a;
    memset(&a, 0, sizeof a);
    a.x = *x;
    a.y = *y;
    a.weight = infer__opt(&l->w[slot]);
    a.kind = c->model->hp.norm;
    a.n_groups = groups;
    a.eps = c->model->hp.eps;
    return a;
}

static void infer__slot_norm(infer_context *c, const infer__layer *l, int slot, int32_t groups, const infer__tensor *x,
                             const infer__tensor *y) {
    infer__norm_args a = infer__slot_norm_of(c, l, slot, groups, x, y);
    infer__ops_of(&c->ctx)->norm(&c->ctx, &a);
}

/* The post-norm of a sublayer's output, where it has one. */
static void infer__post_norm(infer_context *c, const infer__layer *l, int slot, const infer__tensor *out) {
    infer__norm_args a;
    if (slot < 0) return;
    a = infer__slot_norm_of(c, l, slot, 1, out, out);
    a.eps = c->model->hp.post_eps;
    if (infer__post_bias(slot) >= 0) a.bias = infer__opt(&l->w[infer__post_bias(slot)]);
    infer__ops_of(&c->ctx)->norm(&c->ctx, &a);
}

/* Each value times a factor; w: what they are divided by. */
static void infer__times(infer_context *c, const infer__weight *w, const infer__tensor *t) {
    infer__act_args a;
    memset(&a, 0, sizeof a);
    a.x = a.y = *t;
    a.kind = INFER__ACT_LINEAR;
    a.divide = w;
    infer__ops_of(&c->ctx)->act(&c->ctx, &a);
}

static void infer__sub_norm(infer_context *c, const infer__layer *l, int slot, const infer__tensor *t) {
    if (l->w[slot].type) infer__slot_norm(c, l, slot, 1, t, t);
}

static void infer__scale_rows(infer_context *c, float scale, const infer__tensor *t) {
    infer__map_args a;
    memset(&a, 0, sizeof a);
    a.x = *t;
    a.scale = scale;
    if (scale != 1) infer__ops_of(&c->ctx)->map(&c->ctx, &a);
}

static void infer__copy_rows(infer_context *c, const infer__tensor *x, const infer__tensor *y) {
    infer__act_rows(c, INFER__ACT_LINEAR, x, y);
}

static infer__tensor infer__kept(infer_context *c, const infer__layer *l, int32_t rows) {
    uint64_t first = (uint64_t)(c->plan.work_cols - c->plan.pass_kept - l->kept); /* after what any part uses */
    return infer__view(&c->at->work, (uint64_t)rows * first, rows, l->kept);
}

static infer__tensor infer__pass_kept(infer_context *c, int32_t pass_rows, int64_t first, int32_t rows, int32_t cols) {
    uint64_t at = (uint64_t)(c->plan.work_cols - c->plan.pass_kept + first);
    return infer__view(&c->at->work, (uint64_t)pass_rows * at, rows, cols);
}

/* A part whose result later parts read: the norm of x, or what its kind computes from x. */
static void infer__part_keep(infer_context *c, const infer__layer *l, const infer__part *p, const infer__tensor *x) {
    infer__tensor kept = infer__kept(c, l, x->rows);
    infer__sublayer s;
    if (!p->kind->run) {
        infer__norm_to(c, &l->w[p->norm], x, &kept);
        return;
    }
    memset(&s, 0, sizeof s);
    s.part = p;
    s.x = *x;
    s.out = kept;
    p->kind->run(c, l, &s);
}

/* x += (post-norm of) part(norm of x) * scale. The norm and the addition are fused into the sublayer's first and last
 * products when nothing comes between them and intermediate values are not inspected. `next`, a parallel part, reads x
 * as it is now: then both share xn, or its own norm, if it has one, is computed before x changes. */
static void infer__part_run(infer_context *c, const infer__layer *l, const infer__part *p, const infer__part *next,
                            infer__tensor *x, infer__tensor *xn, infer__tensor *out) {
    infer__norm_args norm;
    infer__add_args add;
    infer__sublayer s;
    add.x = *out;
    add.y = *x;
    add.scale = p->scale;
    s.part = p;
    s.x = p->reads == INFER__READS_STREAM || p->reads == INFER__READS_BOTH ? *x
          : p->reads == INFER__READS_KEPT                                  ? infer__kept(c, l, x->rows)
                                                                           : *xn;
    s.out = *out;
    s.norm = NULL;
    if (p->reads == INFER__READS_NORM && !p->beside) {
        norm = infer__norm_of(c, &l->w[p->norm], x, xn);
        s.norm = &norm;
    }
    s.add = p->post >= 0 || p->times >= 0 || next || c->ctx.apart ? NULL : &add;
    if (next || c->ctx.apart) infer__sublayer_norm(c, &s);
    infer__trace(c, l->index, p->kind->in, &s.x);
    p->kind->run(c, l, &s);
    infer__trace(c, l->index, p->kind->out, out);
    if (next && next->reads == INFER__READS_NORM) infer__norm_to(c, &l->w[next->norm], x, xn);
    if (!s.add) {
        if (p->times >= 0) infer__times(c, &l->w[p->times], out);
        infer__post_norm(c, l, p->post, out);
        infer__ops_of(&c->ctx)->add(&c->ctx, &add);
    }
}

static void infer__layer_run(infer_context *c, const infer__layer *l, infer__tensor *x, infer__tensor *xn,
                             infer__tensor *out) {
    int32_t i;
    for (i = 0; i < l->n_parts; i++) {
        const infer__part *next = i + 1 < l->n_parts && l->parts[i + 1].beside ? &l->parts[i + 1] : NULL;
        if (l->parts[i].keeps) infer__part_keep(c, l, &l->parts[i], x);
        else infer__part_run(c, l, &l->parts[i], next, x, xn, out);
        if (l->parts[i].after >= 0) infer__norm_to(c, &l->w[l->parts[i].after], x, x);
    }
    infer__adapted_layer(c, l->index, x);
    infer__trace(c, l->index, "out", x);
}

static void infer__embed_rows(infer_context *c, const infer__weight *table, const infer__tensor *x) {
    const infer_model *m = c->model;
    infer__embed_args a;
    int32_t i;
    memset(&a, 0, sizeof a);
    for (i = 0; i < x->rows; i++) /* rows given as embeddings */
        if (c->row_embd[i])
            infer__ops_of(&c->ctx)->upload(&c->ctx, x->buf,
                                           x->offset + (uint64_t)i * (uint64_t)x->stride * sizeof(float),
                                           c->row_embd[i], (uint64_t)x->cols * sizeof(float));
    a.y = *x;
    a.table = table;
    a.positions = infer__opt(&m->w[INFER__W_POS_EMBD]);
    a.scale = m->hp.embed_scale;
    infer__ops_of(&c->ctx)->embed(&c->ctx, &a);
    infer__adapted_embed(c, INFER__EMBEDS_TOKENS, a.scale, x);
    if (m->w[INFER__W_TOKEN_TYPES].type) { /* token types: infer_text.pair */
        a.table = &m->w[INFER__W_TOKEN_TYPES];
        a.positions = NULL;
        a.scale = 1;
        a.looked = a.add = 1;
        infer__ops_of(&c->ctx)->embed(&c->ctx, &a);
        infer__adapted_embed(c, INFER__EMBEDS_TYPES, a.scale, x);
    }
    infer__switch_begin(c, x->rows);
    if (m->w[INFER__W_EMBD_NORM].type || m->hp.embed_norm_bare) infer__norm_to(c, &m->w[INFER__W_EMBD_NORM], x, x);
}

static void infer__embed(infer_context *c, infer__tensor *x) {
    infer__embed_rows(c, &c->model->w[INFER__W_TOKEN_EMBD], x);
    infer__trace(c, -1, "embed", x);
}

/* The destination of the logits of results i .. i+n-1, if the head runs on the host and the destination rows are
 * contiguous: then they are computed there directly (copying 32,000 was 3% of a token of a small model). NULL
 * otherwise. */
static float *infer__head_direct(const infer_context *c, int32_t i, int32_t n) {
    int32_t j;
    if (!c->at->work.host) return NULL;
    for (j = i + 1; j < i + n; j++)
        if (!c->out_logits[j - 1] || c->out_logits[j] != c->out_logits[j - 1] + c->model->hp.n_vocab) return NULL;
    return c->out_logits[i];
}

enum { INFER__HEAD_ROWS = 64 }; /* of the head in one piece, at least, and a multiple of it */

/* 1 when the slice is over; on the CPU only. */
static int infer__pauses(const infer_context *c) {
    return !c->checking && !c->gather && c->at->x.host && infer__ok(&c->ctx) && infer__slice_over(c->pause);
}

/* Rows of the head per piece of a slice: as many bytes as an average layer. */
static int32_t infer__head_piece(const infer_context *c) {
    const infer_model *m = c->model;
    const infer__weight *w = &m->w[INFER__W_OUTPUT];
    const uint64_t head = w->row_bytes * (uint64_t)w->rows;
    const uint64_t layer = (m->token_bytes > head ? m->token_bytes - head : 0) / (uint64_t)(m->end - m->first);
    const uint64_t rows = layer / INFER__MAX(w->row_bytes, 1) / INFER__HEAD_ROWS * INFER__HEAD_ROWS;
    if (c->pause == 0 || !c->at->x.host || w->low || c->inputs) return w->rows; /* x is given once */
    return (int32_t)INFER__MIN(INFER__MAX(rows, INFER__HEAD_ROWS), (uint64_t)w->rows);
}

/* y = the logits of x, from row c->head_row of the head on: at once, or in pieces until the slice is over, which
 * returns 0. on: compute at least one piece. */
static int infer__head_product(infer_context *c, const infer__tensor *x, const infer__tensor *y, int32_t i, int on) {
    const infer_model *m = c->model;
    const infer__weight *all = &m->w[INFER__W_OUTPUT], *bias = infer__opt(&m->w[INFER__W_OUTPUT_B]);
    const int32_t piece = infer__head_piece(c);
    infer__matmul_args mm;
    infer__weight w, b;
    int32_t r, n;
    if (all->each) {
        infer__share_head(c, x);
        infer__parts_head(c, x, y);
        return 1;
    }
    for (r = c->head_row; r < all->rows; r += n, on = 0) {
        if (!on && infer__pauses(c)) {
            c->head_row = r;
            return 0;
        }
        n = INFER__MIN(piece, all->rows - r);
        memset(&mm, 0, sizeof mm);
        w = infer__slice_rows(all, r, n);
        if (bias) b = infer__slice(bias, r, n);
        mm.x = *x;
        mm.n_w = 1;
        mm.w[0] = n == all->rows ? all : &w;
        mm.b[0] = !bias || n == all->rows ? bias : &b;
        mm.y[0] = infer__columns(y, r, n);
        infer__products_of(c, &mm, i);
    }
    c->head_row = 0;
    return 1;
}

/* Compute the logits of at most head_rows results from i on, whose normed rows are in xn: into the work area, or
 * directly to their destination; nothing if none is wanted. Returns the number of results, 0 when the slice is over
 * first. */
static int32_t infer__logits(infer_context *c, int32_t i, int on) {
    const infer_model *m = c->model;
    int32_t n = INFER__MIN(c->ctx.pass.n_out - i, c->plan.head_rows), j;
    infer__tensor x, y;
    infer__map_args map;
    for (j = 0; j < n && !c->out_logits[i + j]; j++) {}
    if (j == n) return n;
    x = infer__view(&c->at->xn, (uint64_t)i * (uint64_t)m->hp.n_embd, n, m->hp.n_embd);
    memset(&c->direct, 0, sizeof c->direct);
    c->direct.host = infer__head_direct(c, i, n);
    y = infer__view(c->direct.host ? &c->direct : &c->at->work, 0, n, m->hp.n_vocab);
    if (!infer__head_product(c, &x, &y, i, on)) return 0;
    memset(&map, 0, sizeof map);
    map.x = y;
    map.scale = m->hp.logit_scale;
    map.cap = m->hp.final_softcap;
    if (map.scale != 1.0f || map.cap > 0) infer__ops_of(&c->ctx)->map(&c->ctx, &map);
    infer__trace(c, -1, "logits", &y);
    return n;
}

/* The next slice continues the pass here. */
static void infer__stop_at(infer_context *c, int32_t stage, int32_t layer) {
    c->stage = stage;
    c->resume = layer;
}

/* The first logits; the results' rows are normed. */
static void infer__head_logits(infer_context *c) {
    const int32_t n = c->ctx.pass.n_out ? infer__logits(c, 0, 1) : 0;
    if (n) infer__results_top(c, n); /* where they stay on the device */
    else if (c->ctx.pass.n_out) infer__stop_at(c, INFER__STAGE_HEAD, c->model->hp.n_layer);
}

/* Final norm of the rows in pass->out, and the first of their logits. */
static void infer__head(infer_context *c, const infer__tensor *x) {
    infer__get_rows_args rows;
    if (c->ctx.pass.n_out == 0) return;
    rows.x = *x;
    rows.y = infer__view(&c->at->xn, 0, c->ctx.pass.n_out, c->model->hp.n_embd);
    if (c->model->end >= c->model->hp.n_layer) infer__ops_of(&c->ctx)->get_rows(&c->ctx, &rows);
    if (!c->model->hp.out_norm_off && !c->encodes && !infer__follows(c->model))
        infer__norm_to(c, &c->model->w[INFER__W_OUT_NORM], &rows.y, &rows.y);
    infer__trace(c, -1, "hidden", &rows.y);
    infer__head_logits(c);
}

/* Copy rows of `width` floats from row `first` of b on to to[0 .. n - 1] (NULL: skip). Rows that are contiguous on both
 * sides are one copy: a GPU takes 10 us for each. */
static void infer__fetch_rows(infer_context *c, const infer__buf *b, int32_t first, float *const *to, int32_t n,
                              int32_t width) {
    const uint64_t bytes = (uint64_t)width * sizeof(float);
    int32_t i, k;
    for (i = 0; i < n; i += k) {
        for (k = 1; to[i] && i + k < n && to[i + k] == to[i] + (int64_t)k * width; k++) {}
        if (to[i])
            infer__ops_of(&c->ctx)->download(&c->ctx, b, (uint64_t)(first + i) * bytes, to[i], (uint64_t)k * bytes);
    }
}

/* Copy what infer__head computed to its destination; then the other logits, head_rows rows at a time. */
static void infer__fetch(infer_context *c) {
    const int32_t n_out = c->ctx.pass.n_out, from = c->head_at;
    int32_t i, j, k, n;
    c->head_at = 0;
    infer__fetch_rows(c, &c->at->xn, 0, c->out_hidden, n_out, c->model->hp.n_embd);
    for (i = from; i < n_out; i += n) {
        n = i ? infer__logits(c, i, i == from) : INFER__MIN(n_out, c->plan.head_rows);
        if (n == 0) {
            c->head_at = i;
            infer__stop_at(c, INFER__STAGE_FETCH, c->model->hp.n_layer);
            return;
        }
        for (j = 0; j < n && !c->direct.host; j += k) { /* runs whose logits do not stay on the device */
            for (k = 1; j + k < n && !c->out_top[i + j] == !c->out_top[i + j + k]; k++) {}
            if (!c->out_top[i + j])
                infer__fetch_rows(c, &c->at->work, j, c->out_logits + i + j, k, c->model->hp.n_vocab);
        }
    }
    infer__results_fetch(c);
}

/* After a non-finite result the pass is repeated with `checking`: fail at the first layer whose output is not
 * finite. */
static void infer__check_finite(infer_context *c, int32_t layer, const infer__tensor *x) {
    const float *v = c->checking ? infer__peek(c, x) : NULL;
    int64_t i;
    for (i = 0; v && i < (int64_t)x->rows * x->cols; i++)
        if (!infer__finite(v[i])) {
            if (layer < 0) infer__fail(&c->ctx, INFER_ERR_STATE, "the embedding has a value that is not finite");
            else
                infer__fail(&c->ctx, INFER_ERR_STATE, "layer %d is the first with a value that is not finite",
                            (int)layer);
            return;
        }
}

/* The host address through which the bytes at `offset` of a buffer are copied from one device to another; between two
 * GPUs it is byte `hop` of the staging buffer. */
static void *infer__hop(const infer_context *c, const infer__buf *from, const infer__buf *to, uint64_t offset,
                        uint64_t hop) {
    const infer__buf *host = to->host ? to : from;
    if (host->host) return (char *)host->host + offset;
    return c->hop ? (char *)c->hop + hop : NULL;
}

/* Switch the pass to the device of `layer`, copying the residual stream of n rows and what the pass keeps. */
static void infer__go(infer_context *c, int32_t layer, int32_t n) {
    infer__place *from = c->at, *to = &c->places[c->model->layers[layer].place];
    const uint64_t rows = (uint64_t)n, width = sizeof(float);
    const uint64_t bytes = rows * (uint64_t)c->model->hp.n_embd * width;
    const uint64_t kept = rows * (uint64_t)c->plan.carried * width;
    const uint64_t at = rows * (uint64_t)(c->plan.work_cols - c->plan.pass_kept) * width;
    void *x = infer__hop(c, &from->x, &to->x, 0, 0), *rest = infer__hop(c, &from->work, &to->work, at, bytes);
    if (!INFER__HAS_GPU || from == to) return;
    if (!from->x.host) {
        infer__ops_of(&c->ctx)->download(&c->ctx, &from->x, 0, x, bytes);
        if (kept) infer__ops_of(&c->ctx)->download(&c->ctx, &from->work, at, rest, kept);
        infer__ops_of(&c->ctx)->sync(&c->ctx);
    }
    infer__enter(c, c->model->layers[layer].place);
    if (to->x.host) return;
    infer__ops_of(&c->ctx)->upload(&c->ctx, &to->x, 0, x, bytes);
    if (kept) infer__ops_of(&c->ctx)->upload(&c->ctx, &to->work, at, rest, kept);
}

/* Store the encoder's results where the decoder's layers read them. */
static void infer__encoded(infer_context *c, infer__tensor *x) {
    const infer_model *m = c->model;
    int32_t l;
    for (l = INFER__MAX(m->hp.n_enc, m->first); l < INFER__MIN(m->hp.n_layer, m->end) && infer__ok(&c->ctx); l++) {
        infer__go(c, l, x->rows);
        *x = infer__view(&c->at->x, 0, x->rows, x->cols);
        infer__cross_store(c, &m->layers[l], infer__layer_part(&m->layers[l], INFER__SUBLAYER_CROSS), x);
    }
}

/* From token ids to the first results; or to the layer at which the next slice continues (resume). */
static void infer__layers(infer_context *c) {
    const infer_model *m = c->model;
    const int32_t n = c->ctx.pass.n_rows, first = INFER__MAX(c->encodes ? 0 : m->hp.n_enc, m->first);
    const int32_t end = INFER__MIN(c->encodes ? m->hp.n_enc : m->hp.n_layer, m->end), resume = c->resume;
    int32_t l;
    infer__tensor x, xn, out;
    infer__enter(c, m->layers[resume ? resume - 1 : m->first].place);
    if (c->stage == INFER__STAGE_HEAD) {
        infer__stop_at(c, INFER__STAGE_LAYERS, 0);
        infer__head_logits(c);
        return;
    }
    x = infer__view(&c->at->x, 0, n, m->hp.n_embd);
    if (infer__follows(m)) infer__rest_rows(c, n, 0);
    else if (!resume && !m->stack.row) { /* of a stack the first layer makes the stream */
        infer__embed(c, &x);
        infer__check_finite(c, -1, &x);
        infer__embed_keep(c, &x);
        infer__share_pass(c, n);
    }
    c->resume = 0;
    for (l = resume ? resume : first; l < end && infer__ok(&c->ctx); l++) {
        if (l > first && l != resume && infer__pauses(c)) {
            c->resume = l;
            return;
        }
        infer__go(c, l, n);
        x = infer__view(&c->at->x, 0, n, m->hp.n_embd);
        xn = infer__view(&c->at->xn, 0, n, m->hp.n_embd);
        out = infer__view(&c->at->out, 0, n, m->hp.n_embd);
        infer__layer_run(c, &m->layers[l], &x, &xn, &out);
        if (INFER__HAS_MEDIA) infer__deepstack(c, l, &x);
        if (c->picture && c->picture->progress &&
            c->picture->progress(c->picture->progress_user, (float)(l + 1) / (float)end))
            infer__fail(&c->ctx, INFER_CANCELLED, "cancelled by the progress callback");
        infer__check_finite(c, l, &x);
    }
    if (l > first && l != resume && infer__pauses(c)) {
        c->resume = l;
        return;
    }
    if (INFER__HAS_SOURCE && c->encodes == INFER__ENCODES_SOURCE) infer__encoded(c, &x);
    if (m->end < m->hp.n_layer && infer__ok(&c->ctx)) infer__rest_give(c, n);
    if (infer__ok(&c->ctx)) infer__head(c, &x);
}

/* A pass that stays on one GPU may replay the recording of an earlier pass: the hashed values determine all arguments
 * of its ops except the values per token. */
static int infer__record(infer_context *c) {
    const infer_model *m = c->model;
    const infer__pass *p = &c->ctx.pass;
    int32_t shape[7], i, last = 0;
    uint64_t hash;
    if (!infer__ops_of(&c->ctx)->record || c->ctx.apart || m->hp.switches.n || infer__ranged(m))
        return INFER__RECORD_NOT;
    for (i = 0; i < m->hp.n_layer; i++)
        if (m->layers[i].place != m->layers[0].place) return INFER__RECORD_NOT;
    for (i = 0; i < p->n_rows; i++) {
        if (c->row_embd[i]) return INFER__RECORD_NOT;
        last = INFER__MAX(last, p->pos[i]);
    }
    shape[0] = p->n_rows;
    shape[1] = p->n_out;
    shape[2] = p->n_seq;
    for (i = 0; i < p->n_out && i < c->plan.head_rows && !c->out_logits[i]; i++) {}
    shape[3] = i < p->n_out && i < c->plan.head_rows; /* logits are wanted */
    shape[4] = infer__results_most(c);
    for (i = shape[5] = 0; i < m->hp.n_layer; i++) shape[5] += infer__indexer_chooses(&m->layers[i], last);
    shape[6] = c->encodes + 4 * (p->axis[0] != NULL) + 8 * (p->end != NULL);
    hash = infer__adapted_print(c, infer__fnv(INFER__FNV, shape, sizeof shape));
    return infer__ops_of(&c->ctx)->record(&c->ctx, hash);
}

static int infer__forward_begin(infer_context *c) {
    int32_t i;
    c->ctx.apart = c->trace != NULL || c->checking;
    c->direct.host = NULL;
    for (i = 0; i < INFER__PLACES; i++)
        if (infer__enter(c, i)) infer__ops_of(&c->ctx)->begin(&c->ctx);
    /* so that the wait at the end is always for a device in use */
    infer__enter(c, c->model->layers[c->model->first].place);
    return infer__record(c);
}

static void infer__forward(infer_context *c) {
    const int32_t stage = c->stage;
    const int record = c->resume ? INFER__RECORD_NOT : infer__forward_begin(c);
    if (stage < INFER__STAGE_FETCH) {
        if (record != INFER__RECORD_DONE) infer__layers(c);
        if (c->resume) return;
        if (record == INFER__RECORD_NOW && !infer__ops_of(&c->ctx)->record_end(&c->ctx)) infer__layers(c);
    }
    infer__stop_at(c, INFER__STAGE_LAYERS, 0);
    if (infer__ok(&c->ctx) && stage < INFER__STAGE_FURTHER) infer__fetch(c);
    if (c->resume) return;
    if (INFER__HAS_DRAFTS && infer__ok(&c->ctx) && c->model->hp.n_predict && !c->encodes) {
        if (stage < INFER__STAGE_FURTHER && infer__pauses(c)) {
            infer__stop_at(c, INFER__STAGE_FURTHER, c->model->hp.n_layer);
            return;
        }
        infer__further_fill(c);
    }
    infer__ops_of(&c->ctx)->sync(&c->ctx); /* leaving a device synchronises it */
}
