/* ops.c: shared by the ops of all backends: errors, begin and end of an op, argument checks, counters.
 *
 * Owns:  infer__fail, infer__op_begin, infer__op_end. Backends refuse the same things in the same words.
 * Start: backend.h.
 */
#include "backend.h"

/* ---- what contexts need ------------------------------------------------------------------------------------------ */

static void infer__need_cols(infer__needs *n, int32_t cols) { n->cols = INFER__MAX(n->cols, cols); }

static void infer__need_attention(infer__needs *n, int32_t n_head, int32_t dim_k, int32_t dim_v) {
    int32_t head = INFER__MAX(dim_k, dim_v);
    uint64_t values = (uint64_t)n_head * ((uint64_t)dim_v + 2);
    infer__need_cols(n, n_head * head);
    n->head = INFER__MAX(n->head, head);
    n->head_values = INFER__MAX(n->head_values, values);
}

/* ---- errors and the bracket around an op --------------------------------------------------------------- */

static void infer__fail(infer__ctx *c, infer_result code, const char *format, ...) {
    char message[sizeof c->error.message];
    size_t full;
    va_list args;
    if (!infer__ok(c)) return;
    va_start(args, format);
    infer__format_cut(message, sizeof message, &full, format, args);
    va_end(args);
    infer__error(&c->error, code, "%s", message);
}

static double infer__op_begin(infer__ctx *c) {
    if (!infer__ok(c)) return -1;
    if (c->cancel && infer__atomic_get(c->cancel) > c->cancel_seen) {
        infer__fail(c, INFER_CANCELLED, "cancelled");
        return -1;
    }
    return c->profiling ? infer__seconds() : 0;
}

static infer__profile *infer__op_row(infer__ctx *c, const char *op) {
    infer__profile *p = c->profile, *end = p + INFER__PROFILE_OPS;
    while (p < end && p->op && strcmp(p->op, op) != 0) p++;
    if (p == end) return NULL;
    p->op = op;
    return p;
}

static void infer__op_end(infer__ctx *c, const char *op, uint64_t bytes, double began) {
    infer__profile *p = c->profiling ? infer__op_row(c, op) : NULL;
    if (!p) return;
    p->calls++;
    p->bytes += bytes;
    p->seconds += infer__seconds() - began;
}

/* ---- checks and counts that do not depend on the backend ------------------------------------------------ */

static const int32_t *infer__embed_ids(const infer__pass *p, const infer__embed_args *a) {
    return a->looked ? p->looked : p->ids;
}

static int infer__embed_ok(infer__ctx *c, const infer__embed_args *a) {
    const int32_t *ids = infer__embed_ids(&c->pass, a);
    int32_t i;
    for (i = 0; i < a->y.rows; i++)
        if (ids[i] >= a->table->rows || (a->positions && c->pass.pos[i] >= a->positions->rows)) {
            infer__fail(c, INFER_ERR_ARGUMENT, "token %d at position %d is outside the embeddings (%d tokens)",
                        (int)ids[i], a->looked ? -1 : (int)c->pass.pos[i], (int)a->table->rows);
            return 0;
        }
    return 1;
}

static int infer__vector_ok(infer__ctx *c, const infer__weight *w, const char *what) {
    if (!w || w->type->values == 1) return 1;
    infer__fail(c, INFER_ERR_UNSUPPORTED, "%s: type %s is not supported for %s", w->name ? w->name : "a vector",
                w->type->name, what);
    return 0;
}

static uint64_t infer__attention_seen(const infer__ctx *c, const infer__attention_args *a) {
    uint64_t seen = 0;
    int32_t r, lo, hi;
    for (r = 0; r < a->q.rows; r++) {
        infer__row_sees(&c->pass, a, r, &lo, &hi);
        if (a->chosen.buf) hi = lo + infer__index_list(&a->chosen, r, 0, a->chosen_sets)[0]; /* sets: about the same */
        seen += (uint64_t)(hi - lo);
    }
    return seen;
}

static uint64_t infer__attention_bytes(const infer__attention_args *a, uint64_t seen) {
    return seen * (uint64_t)a->n_head_kv *
           (infer__kv_bytes(a->k_cache->type, a->dim_k) + infer__kv_bytes(a->v_cache->type, a->dim_v));
}

/* ---- fused ops --------------------------------------------------------------------------------------------- */

static uint32_t infer__fuses(const infer__ctx *c) { return c->apart ? 0 : c->ops->fuses; }

static void infer__matmul(infer__ctx *c, const infer__matmul_args *a) {
    uint32_t fuses = infer__fuses(c);
    infer__matmul_args own = *a;
    if (!(fuses & INFER__FUSE_LOW)) own.low = NULL;
    if (a->low && !own.low) fuses = 0; /* it reads x, and the ops after it read y */
    if (!(fuses & INFER__FUSE_NORM)) own.norm = NULL;
    if (!(fuses & INFER__FUSE_ACT) || (a->act && (a->act->kind >= INFER__ACTS_TAKEN || !infer__act_plain(a->act))))
        own.act = NULL;
    if (!(fuses & INFER__FUSE_ADD)) own.add = NULL;
    if (a->norm && !own.norm) c->ops->norm(c, a->norm);
    c->ops->matmul(c, &own);
    if (a->low && !own.low) c->ops->low(c, a->low);
    if (a->act && !own.act) c->ops->act(c, a->act);
    if (a->add && !own.add) c->ops->add(c, a->add);
}

/* One after the other. */
static void infer__moe_apart(infer__ctx *c, const infer__moe_matmul_args *a) {
    infer__moe_matmul_args own = *a;
    own.bias = NULL;
    own.gate = NULL;
    own.act = NULL;
    own.add = NULL;
    c->ops->moe_matmul(c, &own);
    if (a->bias) c->ops->moe_bias(c, a->bias);
    if (a->gate) infer__moe_apart(c, a->gate);
    if (a->act) c->ops->act(c, a->act);
    if (a->add) c->ops->add(c, a->add);
}

static void infer__moe_matmul(infer__ctx *c, const infer__moe_matmul_args *a) {
    if (infer__fuses(c) & INFER__FUSE_EXPERTS) c->ops->moe_matmul(c, a);
    else infer__moe_apart(c, a);
}

/* A matrix of a part, at `offset` of its buffer. */
static infer__weight infer__low_matrix(const infer__low_part *p, uint64_t offset, int32_t rows, int32_t cols) {
    const char *removed;
    infer__weight w;
    memset(&w, 0, sizeof w);
    w.type = infer__quant_find(0, &removed); /* F32 */
    w.buf = p->buf;
    w.offset = offset;
    w.rows = rows;
    w.cols = cols;
    w.row_bytes = (uint64_t)cols * sizeof(float);
    return w;
}

/* Rows [from, from + n) of t. */
static infer__tensor infer__some_rows(const infer__tensor *t, int32_t from, int32_t n) {
    infer__tensor v = *t;
    v.offset += (uint64_t)from * (uint64_t)t->stride * sizeof(float);
    v.rows = n;
    return v;
}

/* One part, as two products and a sum. */
static void infer__low_part_apart(infer__ctx *c, const infer__low_args *a, const infer__low_part *p) {
    const int experts = a->ids.buf != NULL;
    const int32_t x_each = experts && a->per_expert_x ? a->n_used : 1;
    const int32_t y_each = experts && !a->weights.buf ? a->n_used : 1;
    const int32_t pairs = p->rows * (experts ? a->n_used : 1), matrices = experts ? a->n_expert : 1;
    const infer__tensor *y = &a->y[p->of];
    const infer__weight down = infer__low_matrix(p, p->a_at, p->rank * matrices, a->x.cols);
    const infer__weight up = infer__low_matrix(p, p->b_at + (uint64_t)p->first * (uint64_t)p->rank * sizeof(float),
                                               y->cols * matrices, p->rank);
    infer__tensor low = *y;
    infer__add_args add;
    low.buf = a->room;
    low.offset = 0;
    low.rows = pairs;
    low.cols = low.stride = p->rank;
    add.y = infer__some_rows(y, p->row * y_each, p->rows * y_each);
    add.x = add.y;
    add.x.buf = a->room;
    add.x.offset = (uint64_t)pairs * (uint64_t)p->rank * sizeof(float);
    add.x.stride = y->cols;
    add.scale = p->scale;
    if (experts) {
        infer__moe_matmul_args m;
        memset(&m, 0, sizeof m);
        m.x = infer__some_rows(&a->x, p->row * x_each, p->rows * x_each);
        m.y = low;
        m.ids = infer__some_rows(&a->ids, p->row, p->rows);
        m.w = &down;
        m.rows = p->rank;
        m.n_used = a->n_used;
        m.per_expert_x = a->per_expert_x;
        c->ops->moe_matmul(c, &m);
        m.x = low;
        m.y = add.x;
        if (a->weights.buf) m.weights = infer__some_rows(&a->weights, p->row, p->rows);
        m.w = &up;
        m.rows = y->cols;
        m.per_expert_x = 1;
        c->ops->moe_matmul(c, &m);
    } else {
        infer__matmul_args m;
        memset(&m, 0, sizeof m);
        m.n_w = 1;
        m.x = infer__some_rows(&a->x, p->row, p->rows);
        m.y[0] = low;
        m.w[0] = &down;
        c->ops->matmul(c, &m);
        m.x = low;
        m.y[0] = add.x;
        m.w[0] = &up;
        c->ops->matmul(c, &m);
    }
    c->ops->add(c, &add);
}

/* Low-rank additions as separate ops, for GPUs. */
static void infer__low_apart(infer__ctx *c, const infer__low_args *a) {
    int32_t i;
    for (i = 0; i < a->n_parts; i++) infer__low_part_apart(c, a, &a->parts[i]);
}

static void infer__kv_store(infer__ctx *c, const infer__kv_store_args *a) {
    infer__kv_store_args own = *a;
    if (!(infer__fuses(c) & INFER__FUSE_HEADS)) own.norm_q = own.norm_k = NULL;
    if (!(infer__fuses(c) & INFER__FUSE_ROPE)) own.rope_q = own.rope_k = NULL;
    if (a->norm_q && !own.norm_q) c->ops->norm(c, a->norm_q);
    if (a->norm_k && !own.norm_k) c->ops->norm(c, a->norm_k);
    if (a->rope_q && !own.rope_q) c->ops->rope(c, a->rope_q);
    if (a->rope_k && !own.rope_k) c->ops->rope(c, a->rope_k);
    c->ops->kv_store(c, &own);
}
