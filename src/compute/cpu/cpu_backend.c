/* cpu_backend.c: the op vtable of the CPU: the ops without a file of their own, memory, scratch.
 *
 * Owns:  infer__cpu_ops.
 * Rules: rows are independent, so they are split over threads in any way; one row's sums are never split. Elementwise
 *        ops are split inside rows too. Work that takes less time than waking a thread runs on the calling thread.
 * Start: infer__cpu_norm for the shape of an op, infer__cpu_ops at the end.
 */
#include "cpu_ops.h"

/* ---- memory ---------------------------------------------------------------------------------------------- */

static int infer__cpu_alloc(infer__ctx *c, infer__buf *b, uint64_t bytes) {
    memset(b, 0, sizeof *b);
    b->host = infer__alloc(c->mem, bytes);
    b->bytes = b->host ? bytes : 0;
    return b->host != NULL;
}

static void infer__cpu_release(infer__ctx *c, infer__buf *b) {
    infer__free(c->mem, b->host);
    memset(b, 0, sizeof *b);
}

static void infer__cpu_upload(infer__ctx *c, infer__buf *b, uint64_t offset, const void *src, uint64_t bytes) {
    INFER__ASSERT(offset <= b->bytes && bytes <= b->bytes - offset);
    if (infer__ok(c) && bytes > 0) memcpy((char *)b->host + offset, src, (size_t)bytes);
}

static void infer__cpu_download(infer__ctx *c, const infer__buf *b, uint64_t offset, void *dst, uint64_t bytes) {
    INFER__ASSERT(offset <= b->bytes && bytes <= b->bytes - offset);
    if (infer__ok(c) && bytes > 0) memcpy(dst, (const char *)b->host + offset, (size_t)bytes);
}

static void infer__cpu_copy_bytes(infer__ctx *c, infer__buf *dst, uint64_t dst_offset, const infer__buf *src,
                                  uint64_t src_offset, uint64_t bytes) {
    INFER__ASSERT(dst_offset <= dst->bytes && bytes <= dst->bytes - dst_offset);
    INFER__ASSERT(src_offset <= src->bytes && bytes <= src->bytes - src_offset);
    if (infer__ok(c) && bytes > 0)
        memmove((char *)dst->host + dst_offset, (const char *)src->host + src_offset, (size_t)bytes);
}

/* The bytes of a page are the same in both orders. */
static void infer__cpu_kv_export(infer__ctx *c, const infer__kv_page_args *a) {
    uint64_t n = infer__kv_page_bytes(a);
    infer__cpu_download(c, &a->buf->buf, (uint64_t)a->page * n, a->keys ? a->spare : a->rows, n);
    if (a->keys && infer__ok(c)) infer__kv_turn(a->buf->type, a->n_head, a->dim, a->spare, a->rows, 1);
}

static void infer__cpu_kv_import(infer__ctx *c, const infer__kv_page_args *a) {
    uint64_t n = infer__kv_page_bytes(a);
    if (a->keys) infer__kv_turn(a->buf->type, a->n_head, a->dim, a->spare, a->rows, 0);
    infer__cpu_upload(c, &a->buf->buf, (uint64_t)a->page * n, a->keys ? a->spare : a->rows, n);
}

/* The largest of what any op needs for rows of at most n->cols values: decoded rows of a weight (four at least); the
 * tiles of attention with heads of at most n->head values (0: as large as rows allow); and what integer products need,
 * before that (experts use both). */
static int64_t infer__cpu_scratch_len(const infer__needs *n, int32_t panel) {
    int64_t cols = INFER__MAX(n->cols, 64);
    int64_t tile = INFER__MAX(INFER__MIN(cols * INFER__TILE_ROWS, INFER__TILE_FLOATS), 4 * cols);
    int32_t head = n->head ? n->head : INFER__MIN(n->cols, INFER__MAX_HEAD_DIM);
    int64_t attention = infer__attention_scratch(head, n->index_sets > 0);
    int64_t floats = infer__float_scratch_len(infer__floats_find(n->cpu), n->cols);
    int64_t len = INFER__MAX(INFER__MAX(tile, attention), floats) + infer__int8_scratch_len(panel);
    return (len + INFER__LANES - 1) / INFER__LANES * INFER__LANES;
}

/* Ops read ctx.pass directly; tables of the previous pass become invalid. */
static void infer__cpu_begin(infer__ctx *c) {
    memset((void *)c->cpu->turns_of, 0, sizeof c->cpu->turns_of);
}
static void infer__cpu_sync(infer__ctx *c) { (void)c; /* every op is done when it returns */ }

/* Sizes of everything that prepare takes. */
static void infer__cpu_run_sizes(struct infer__cpu_run *r, const infer__needs *n) {
    uint64_t rows = (uint64_t)n->rows, pairs = rows * (uint64_t)n->n_used;
    memset(r, 0, sizeof *r);
    r->panel =
        (int32_t)INFER__MIN(INFER__MAX(INFER__MAX(rows, pairs), 1), INFER__INT8_PANEL); /* an expert may have all */
    r->scratch_len = infer__cpu_scratch_len(n, r->panel);
    r->x8_len = INFER__MAX(infer__cpu_x8_len(rows, n->cols), infer__cpu_x8_len(pairs, n->expert_cols));
    r->float_x_bytes = INFER__MAX(infer__float_x_bytes(n->cpu, rows, n->cols),
                                  infer__float_experts_bytes(n->float_cols, pairs, n->n_expert));
    r->n_turns = n->turn_sets;
    r->turns_len = (int64_t)n->rows * n->turn_cols;
    r->ranks_len = infer__index_ranks(n);
}

static void infer__cpu_sizes(const infer__needs *n, uint64_t *here, uint64_t *host) {
    struct infer__cpu_run r;
    infer__cpu_run_sizes(&r, n);
    *here = infer__block_bytes(sizeof r) +
            infer__block_bytes((uint64_t)n->threads * (uint64_t)r.scratch_len * sizeof(float)) +
            infer__block_bytes(r.x8_len ? infer__cpu_x8_bytes(r.x8_len) : 0) + infer__block_bytes(r.float_x_bytes) +
            infer__block_bytes((uint64_t)r.n_turns * (uint64_t)r.turns_len * sizeof(float)) +
            infer__block_bytes((uint64_t)r.ranks_len * sizeof(uint32_t));
    *host = 0;
}

/* Every op has a body for every argument. */
static int infer__cpu_supports(int32_t op, const void *args) {
    (void)op;
    (void)args;
    return 1;
}

static int infer__cpu_prepare(infer__ctx *c, const infer__needs *n) {
    uint64_t workers = (uint64_t)infer__pool_threads(c->pool), bytes;
    struct infer__cpu_run *r = (struct infer__cpu_run *)infer__calloc(c->mem, 1, sizeof *r);
    c->cpu = r;
    if (!r) return 0;
    infer__cpu_run_sizes(r, n);
    if (!infer__mul_ok(workers, (uint64_t)r->scratch_len * sizeof(float), &bytes)) return 0;
    r->scratch = (float *)infer__alloc(c->mem, bytes);
    if (r->x8_len) r->x8 = (infer__x8 *)infer__alloc(c->mem, infer__cpu_x8_bytes(r->x8_len));
    if (r->float_x_bytes) r->float_x = (uint8_t *)infer__alloc(c->mem, r->float_x_bytes);
    bytes = (uint64_t)r->n_turns * (uint64_t)r->turns_len * sizeof(float);
    if (bytes) r->turns = (float *)infer__alloc(c->mem, bytes);
    if (r->ranks_len) r->ranks = (uint32_t *)infer__alloc(c->mem, (uint64_t)r->ranks_len * sizeof(uint32_t));
    if (r->ranks_len && !r->ranks) return 0;
    return r->scratch && (r->x8 || !r->x8_len) && (r->float_x || !r->float_x_bytes) && (r->turns || !bytes);
}

static void infer__cpu_finish(infer__ctx *c) {
    struct infer__cpu_run *r = c->cpu;
    if (!r) return;
    infer__free(c->mem, r->scratch);
    infer__free(c->mem, r->x8);
    infer__free(c->mem, r->float_x);
    infer__free(c->mem, r->turns);
    infer__free(c->mem, r->ranks);
    infer__free(c->mem, r);
    c->cpu = NULL;
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

/* The argument of these ops' tasks; each op reads its own args. The work is split into units (rows, or parts of rows),
 * and a task is a few of them: a unit may take 30 ns, as much as scheduling a task. */
typedef struct infer__row_job {
    infer__ctx *c;
    const void *args;
    infer__task_fn unit;
    int32_t step, parts;    /* elementwise ops: columns per unit, units per row */
    int32_t units, of_task; /* units in all, and of a task */
} infer__row_job;

static void infer__rows_task(void *arg, int task, int worker) {
    const infer__row_job *job = (const infer__row_job *)arg;
    int32_t u = task * job->of_task, end = INFER__MIN(u + job->of_task, job->units);
    for (; u < end; u++) job->unit(arg, u, worker);
}

/* `parts` units a row of `step` columns; `cost` is about the work of an element in multiplications. */
static void infer__cpu_units(infer__ctx *c, const infer__tensor *t, int32_t step, int32_t cost, infer__task_fn unit,
                             const void *args) {
    infer__row_job job;
    job.c = c;
    job.args = args;
    job.unit = unit;
    job.step = step;
    job.parts = (t->cols + step - 1) / step;
    job.units = t->rows * job.parts;
    job.of_task = INFER__MAX(job.units / (8 * infer__pool_threads(c->pool)), 1);
    infer__cpu_run(c, (job.units + job.of_task - 1) / job.of_task, (int64_t)t->rows * t->cols * cost, infer__rows_task,
                   &job);
}

/* A unit is a row. */
static void infer__cpu_rows(infer__ctx *c, const infer__tensor *t, int32_t cost, infer__task_fn unit,
                            const void *args) {
    infer__cpu_units(c, t, t->cols, cost, unit, args);
}

/* A unit is a part of a row: elementwise ops. */
static void infer__cpu_parts(infer__ctx *c, const infer__tensor *t, int32_t cost, infer__task_fn unit,
                             const void *args) {
    infer__cpu_units(c, t, 2048, cost, unit, args);
}

/* The row, the first column and the number of columns of a task. */
static void infer__cpu_part(const infer__row_job *job, int task, int32_t cols, int32_t *row, int32_t *col, int32_t *n) {
    *row = task / job->parts;
    *col = task % job->parts * job->step;
    *n = INFER__MIN(job->step, cols - *col);
}

static void infer__embed_task(void *arg, int row, int worker) {
    const infer__row_job *job = (const infer__row_job *)arg;
    const infer__embed_args *a = (const infer__embed_args *)job->args;
    float *y = infer__row(&a->y, row), *scratch = infer__cpu_scratch(job->c, worker);
    int32_t id = infer__embed_ids(&job->c->pass, a)[row], cols = a->y.cols;
    const float *x;
    int64_t stride;
    if (INFER__VARIANT(id < 0 && a->pad)) id = 0;
    if (id >= 0) {
        x = infer__weight_rows(a->table, id, 1, scratch, &stride);
        if (INFER__VARIANT(a->add)) job->c->kernels->axpy(y, x, a->scale, cols);
        else memcpy(y, x, (size_t)cols * sizeof *y);
        if (a->scale != 1.0f && !INFER__VARIANT(a->add)) job->c->kernels->scale(y, a->scale, cols);
    }
    if (!INFER__HAS_VARIANTS || !a->positions) return;
    x = infer__weight_rows(a->positions, job->c->pass.pos[row], 1, scratch, &stride);
    job->c->kernels->axpy(y, x, 1.0f, cols);
}

static void infer__cpu_embed(infer__ctx *c, const infer__embed_args *a) {
    double began = infer__op_begin(c);
    if (began < 0 || !infer__embed_ok(c, a)) return;
    INFER__ASSERT(a->table->cols == a->y.cols && a->y.cols <= c->cpu->scratch_len);
    infer__cpu_rows(c, &a->y, 4, infer__embed_task, a);
    infer__op_end(c, "embed", (uint64_t)a->y.rows * a->table->row_bytes, began);
}

static void infer__cpu_get_rows(infer__ctx *c, const infer__get_rows_args *a) {
    int32_t i;
    double began = infer__op_begin(c);
    if (began < 0) return;
    for (i = 0; i < a->y.rows; i++) {
        INFER__ASSERT(c->pass.out[i] >= 0 && c->pass.out[i] < a->x.rows);
        memcpy(infer__row(&a->y, i), infer__row(&a->x, c->pass.out[i]), (size_t)a->y.cols * sizeof(float));
    }
    infer__op_end(c, "get_rows", 0, began);
}

static void infer__norm_task(void *arg, int row, int worker) {
    const infer__row_job *job = (const infer__row_job *)arg;
    const infer__norm_args *a = (const infer__norm_args *)job->args;
    const infer__kernels *k = job->c->kernels;
    int32_t n = a->x.cols / a->n_groups, g;
    float *w_values = infer__cpu_scratch(job->c, worker), *b_values = w_values + a->x.cols, mean = 0.0f, inv;
    int64_t w_len = a->weight ? (int64_t)a->weight->rows * a->weight->cols : 0;
    int64_t b_len = a->bias ? (int64_t)a->bias->rows * a->bias->cols : 0;
    const float *w = a->weight ? infer__weight_values(a->weight, 0, w_len, w_values) : NULL;
    const float *b = a->bias ? infer__weight_values(a->bias, 0, b_len, b_values) : NULL;
    for (g = 0; g < a->n_groups; g++) {
        const float *x = infer__row(&a->x, row) + (int64_t)g * n;
        float *y = infer__row(&a->y, row) + (int64_t)g * n;
        if (a->kind == INFER__NORM_LAYER) mean = k->sum(x, n) / (float)n;
        inv = 1.0f / sqrtf(k->sum_sq_diff(x, mean, n) / (float)n + a->eps);
        k->norm(y, x, mean, inv, w && w_len > n ? w + (int64_t)g * n : w, b && b_len > n ? b + (int64_t)g * n : b, n);
    }
}

static void infer__cpu_norm(infer__ctx *c, const infer__norm_args *a) {
    double began = infer__op_begin(c);
    if (began < 0) return;
    INFER__ASSERT(a->x.cols % a->n_groups == 0 && 2 * (int64_t)a->x.cols <= c->cpu->scratch_len);
    INFER__ASSERT(infer__norm_fits(a, a->weight) && infer__norm_fits(a, a->bias));
    infer__cpu_rows(c, &a->x, 2, infer__norm_task, a);
    infer__op_end(c, "norm", 0, began);
}

/* The angles of a row: n_rot/2 cosines, then as many sines, times the scale. */
static void infer__turns_fill(const infer__pass *p, const infer__rope_args *a, int32_t row, float *to) {
    const int extended = p->extended[p->seq[row]];
    int32_t i;
    for (i = 0; i < a->n_rot / 2; i++) {
        const int32_t *axis =
            INFER__HAS_VARIANTS && a->axes ? p->axis[a->axes[i]] : NULL; /* NULL: the row's position */
        infer__turn(a, i, axis ? axis[row] : p->pos[row], extended, to);
    }
}

/* The sine/cosine table of these frequencies, NULL when there is none. */
static float *infer__turns_find(infer__ctx *c, const infer__rope_args *a, int *made) {
    int32_t i = 0;
    if ((int64_t)a->x.rows * a->n_rot > c->cpu->turns_len) return NULL;
    while (i < c->cpu->n_turns && c->cpu->turns_of[i] && c->cpu->turns_of[i] != a->freq) i++;
    if (i == c->cpu->n_turns) return NULL;
    *made = c->cpu->turns_of[i] != NULL;
    c->cpu->turns_of[i] = a->freq;
    return c->cpu->turns + i * c->cpu->turns_len;
}

typedef struct infer__rope_job {
    const infer__rope_args *a;
    float *turns; /* sine/cosine table, n_rot floats a row; NULL: every row computes its own */
    int made;
} infer__rope_job;

static void infer__rope_task(void *arg, int row, int worker) {
    const infer__row_job *job = (const infer__row_job *)arg;
    const infer__rope_job *rope = (const infer__rope_job *)job->args;
    const infer__rope_args *a = rope->a;
    int32_t half = a->n_rot / 2, blocks = INFER__HAS_VARIANTS ? INFER__MAX(a->blocks, 1) : 1, h, i, b;
    float *t = rope->turns ? rope->turns + (int64_t)row * a->n_rot : infer__cpu_scratch(job->c, worker);
    if (!rope->turns || !rope->made) infer__turns_fill(&job->c->pass, a, row, t);
    if (INFER__VARIANT(a->back)) {
        float *own = infer__cpu_scratch(job->c, worker);
        for (i = 0; i < a->n_rot; i++) own[i] = i < half ? t[i] : -t[i];
        t = own;
    }
    for (h = 0; h < a->n_head; h++)
        for (b = 0; b < blocks; b++)
            job->c->kernels->rotate(infer__row(&a->x, row) + (int64_t)h * a->dim + b * (a->n_rot / blocks),
                                    t + b * (half / blocks), t + half + b * (half / blocks), half / blocks, a->kind);
}

static void infer__cpu_rope(infer__ctx *c, const infer__rope_args *a) {
    infer__rope_job job;
    double began = infer__op_begin(c);
    if (began < 0 || a->kind == INFER__ROPE_NONE) return;
    INFER__ASSERT(a->n_rot <= a->dim && a->n_rot % 2 == 0 && a->n_rot <= c->cpu->scratch_len);
    INFER__ASSERT(a->freq->bytes >= (uint64_t)a->n_rot * sizeof(float) && a->x.cols == a->n_head * a->dim);
    job.a = a;
    job.made = 0;
    job.turns = infer__turns_find(c, a, &job.made);
    infer__cpu_rows(c, &a->x, job.made ? 2 : 16, infer__rope_task, &job);
    infer__op_end(c, "rope", 0, began);
}

/* ---- elementwise ------------------------------------------------------------------------------------------------ */

/* See infer__act_args. Where exp(m) - 1 - m would cancel, use the series from m^2 to m^8 / 8!, whose remainder is below
 * 1e-7 of it. */
static float infer__xielu(float x, const float *p) {
    float m, rest;
    if (x > 0) return p[0] * x * x + p[2] * x;
    m = x < p[3] ? x : p[3]; /* a NaN stays in x */
    if (m > -0.5f) {
        rest = 1.0f / 24 + m * (1.0f / 120 + m * (1.0f / 720 + m * (1.0f / 5040 + m / 40320)));
        rest = m * m * (0.5f + m * (1.0f / 6 + m * rest));
    } else rest = infer__exp_minus_f32(m) - 1 - m;
    return p[1] * (rest + (m - x)) + p[2] * x;
}

/* NaN stays NaN. */
static float infer__at_most(float x, float most) { return x > most ? most : x; }

/* Activations with clamping, addition or broadcast, via a temporary: y[col .. col + n - 1] of a row. */
static void infer__act_made(const infer__ctx *c, const infer__act_args *a, int32_t row, int32_t col, int32_t n) {
    enum { PIECE = 256 };
    float gate[PIECE], up[PIECE];
    const float *x = infer__row(&a->x, row), *from = a->up.buf ? infer__row(&a->up, row) : NULL;
    int32_t each = a->y.cols / a->x.cols, end = col + n, i;
    for (; col < end; col += n) {
        n = INFER__MIN(end - col, PIECE);
        for (i = 0; i < n; i++) {
            gate[i] = x[each == 1 ? col + i : (col + i) / each];
            up[i] = from ? from[col + i] : 0;
        }
        for (i = 0; i < n && a->limit > 0; i++) {
            if (!a->limit_after) gate[i] = infer__at_most(gate[i], a->limit);
            up[i] = -infer__at_most(-infer__at_most(up[i], a->limit), a->limit);
        }
        for (i = 0; i < n; i++) up[i] += a->up_add;
        if (a->limit > 0 && a->limit_after) {
            c->kernels->act(gate, gate, NULL, a->kind, n);
            for (i = 0; i < n; i++)
                infer__row(&a->y, row)[col + i] = infer__at_most(gate[i], a->limit) * (from ? up[i] : 1.0f);
        } else c->kernels->act(infer__row(&a->y, row) + col, gate, from ? up : NULL, a->kind, n);
    }
}

/* y = x * up, where x may have a value for several columns. */
static void infer__act_linear(const infer__act_args *a, int32_t row, int32_t col, int32_t n) {
    const float *x = infer__row(&a->x, row), *up = a->up.buf ? infer__row(&a->up, row) : NULL;
    float *y = infer__row(&a->y, row);
    int32_t each = a->y.cols / a->x.cols, end = col + n;
    for (; each == 1 && up && col < end; col++) y[col] = x[col] * up[col];
    for (; col < end; col++) y[col] = x[col / each] * (up ? up[col] : 1.0f);
}

static void infer__act_task(void *arg, int task, int worker) {
    const infer__row_job *job = (const infer__row_job *)arg;
    const infer__act_args *a = (const infer__act_args *)job->args;
    float *y;
    const float *divide, *x;
    int32_t row, col, n, i;
    infer__cpu_part(job, task, a->y.cols, &row, &col, &n);
    y = infer__row(&a->y, row) + col;
    if (INFER__HAS_ACTS && a->kind == INFER__ACT_XIELU) {
        x = infer__row(&a->x, row) + col;
        for (i = 0; i < n; i++)
            y[i] = infer__xielu(x[i], a->xielu) * (a->up.buf ? infer__row(&a->up, row)[col + i] : 1.0f);
    } else if (INFER__HAS_ACTS && a->kind == INFER__ACT_LINEAR) infer__act_linear(a, row, col, n);
    else if (INFER__HAS_ACTS && !infer__act_plain(a)) infer__act_made(job->c, a, row, col, n);
    else
        job->c->kernels->act(y, infer__row(&a->x, row) + col, a->up.buf ? infer__row(&a->up, row) + col : NULL,
                             a->kind, n);
    if (!INFER__HAS_ACTS || !a->divide) return;
    divide = infer__weight_values(a->divide, col, n, infer__cpu_scratch(job->c, worker));
    for (i = 0; i < n; i++) y[i] /= divide[i];
}

static void infer__cpu_act(infer__ctx *c, const infer__act_args *a) {
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->divide, "activation scales")) return;
    INFER__ASSERT(a->y.rows == a->x.rows && a->y.cols % a->x.cols == 0);
    INFER__ASSERT(a->kind < INFER__ACTS || infer__act_plain(a) || (a->kind == INFER__ACT_LINEAR && a->limit == 0));
    infer__cpu_parts(c, &a->y, 8, infer__act_task, a);
    infer__op_end(c, "act", 0, began);
}

static void infer__add_task(void *arg, int task, int worker) {
    const infer__row_job *job = (const infer__row_job *)arg;
    const infer__add_args *a = (const infer__add_args *)job->args;
    int32_t row, col, n;
    (void)worker;
    infer__cpu_part(job, task, a->x.cols, &row, &col, &n);
    job->c->kernels->axpy(infer__row(&a->y, row) + col, infer__row(&a->x, row) + col, a->scale, n);
}

static void infer__cpu_add(infer__ctx *c, const infer__add_args *a) {
    double began = infer__op_begin(c);
    if (began < 0) return;
    infer__cpu_parts(c, &a->x, 1, infer__add_task, a);
    infer__op_end(c, "add", 0, began);
}

static void infer__map_task(void *arg, int task, int worker) {
    const infer__row_job *job = (const infer__row_job *)arg;
    const infer__map_args *a = (const infer__map_args *)job->args;
    float *x;
    int32_t row, col, n, i;
    (void)worker;
    infer__cpu_part(job, task, a->x.cols, &row, &col, &n);
    x = infer__row(&a->x, row) + col;
    if (INFER__VARIANT(a->cap) > 0) job->c->kernels->softcap(x, a->scale, a->cap, n);
    else if (a->scale != 1.0f) job->c->kernels->scale(x, a->scale, n);
    for (i = 0; INFER__VARIANT(a->clamp) > 0 && i < n; i++)
        x[i] = x[i] > a->clamp ? a->clamp : x[i] < -a->clamp ? -a->clamp : x[i];
    for (i = 0; INFER__HAS_VARIANTS && a->range && i < n; i++)
        x[i] = x[i] > a->range[1] ? a->range[1] : x[i] < a->range[0] ? a->range[0] : x[i];
}

static void infer__cpu_map(infer__ctx *c, const infer__map_args *a) {
    double began = infer__op_begin(c);
    if (began < 0) return;
    infer__cpu_parts(c, &a->x, a->cap > 0 ? 16 : 2, infer__map_task, a);
    infer__op_end(c, "map", 0, began);
}

static const infer__ops infer__cpu_ops = {
    .name = "cpu",
    .fuses = INFER__FUSE_LOW,
    .embed = infer__cpu_embed,
    .get_rows = infer__cpu_get_rows,
    .norm = infer__cpu_norm,
    .matmul = infer__cpu_matmul,
    .rope = infer__cpu_rope,
    .kv_store = infer__cpu_kv_store,
    .kv_export = infer__cpu_kv_export,
    .kv_import = infer__cpu_kv_import,
    .attention = infer__cpu_attention,
    .conv = infer__cpu_conv,
    .ssm = infer__cpu_ssm,
    .delta = infer__cpu_delta,
    .wkv = infer__cpu_wkv,
    .act = infer__cpu_act,
    .streams = infer__cpu_streams,
    .index = infer__cpu_index,
    .compress = infer__cpu_compress,
    .rows_store = infer__cpu_rows_store,
    .add = infer__cpu_add,
    .map = infer__cpu_map,
    .moe_route = infer__cpu_moe_route,
    .moe_matmul = infer__cpu_moe_matmul,
    .moe_bias = infer__cpu_moe_bias,
    .low = infer__cpu_low,
    .top = infer__cpu_top,
    .begin = infer__cpu_begin,
    .sync = infer__cpu_sync,
    .alloc = infer__cpu_alloc,
    .release = infer__cpu_release,
    .upload = infer__cpu_upload,
    .download = infer__cpu_download,
    .copy_bytes = infer__cpu_copy_bytes,
    .sizes = infer__cpu_sizes,
    .supports = infer__cpu_supports,
    .prepare = infer__cpu_prepare,
    .finish = infer__cpu_finish,
};
