/* conformer.c: steps of Gemma 4's encoder of sound (conformers: arXiv 2005.08100), on the host.
 *
 * How:  the spectrogram goes through two convolutions of 3 x 3 that halve it, some lines of time at once, in scratch of
 *       the picture. Attention sees a row and the 11 before it; to a key's product comes that of its distance: sines
 *       and cosines of it, times a matrix. Queries and keys have factors for each value of a head.
 * Start: infer__step_subsample, infer__step_relate.
 */
#include "../model.h"

#define INFER__CONFORMER_EPS 1e-6f
enum { INFER__TASK_OF = 16 }; /* rows */

static int infer__subsampled(const infer_model *m) { return m->stack.row->input->kind == INFER__STEP_SUBSAMPLE; }

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int infer__conformer_slots(infer_model *m, const infer__step *s, int matrix, int vector) {
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v", "attn_k_rel", "per_dim_scale", "per_dim_k_scale"};
    const int attends = s->kind == INFER__STEP_RELATE;
    char name[64];
    int i, ok = 1;
    for (i = 0; i < 6 && ok && attends; i++) {
        infer__format(name, sizeof name, "a.blk.%%d.%s", parts[i]);
        ok = i < 4 ? infer__stack_name(m, matrix + i, name, ".weight", INFER__D_ANY, INFER__D_ANY, 1)
                   : infer__stack_name(m, vector + i - 4, name, ".weight", INFER__D_ONE, INFER__D_ANY, i == 4);
    }
    for (i = 0; i < 2 && ok && !attends; i++) {
        infer__format(name, sizeof name, s->name, i);
        ok = infer__stack_name(m, matrix + i, name, ".weight", INFER__D_ANY, INFER__D_KERNEL, 1) &&
             infer__stack_name(m, vector + i, name, ".bias", INFER__D_ONE, INFER__D_ANY, 0) &&
             infer__stack_name(m, vector + 2 + 2 * i, name, ".norm.weight", INFER__D_ONE, INFER__D_ANY, 1);
    }
    return ok;
}

static infer_result infer__conformer_flow(const infer_model *m, const infer__layer *l, infer__steps s, infer__flow *f,
                                          infer_error *err) {
    const infer__weight *w = &l->w[s.matrix], *v = &l->w[s.vector];
    const int64_t n = m->hp.n_embd, head = n / l->n_head;
    infer_result r = INFER_OK;
    int i;
    switch (s.s->kind) {
    case INFER__STEP_SUBSAMPLE:
        for (i = 0, f->cols = 1; i < 2 && !r; i++) {
            f->cols *= 9;
            f->widest = INFER__MAX(f->widest, f->cols);
            r = infer__flow_matrix(w + i, v + i, 0, &f->cols, err);
            if (!r) r = infer__flow_fits(v + 2 + 2 * i, f->cols, err);
        }
        f->cols *= infer__half(infer__half(m->stack.bins));
        return r;
    case INFER__STEP_RELATE:
        if (n % l->n_head || head > INFER__MAX_HEAD_DIM)
            return infer__error(err, INFER_ERR_FORMAT, "key %s.attention.head_count: %d heads of %d values",
                                infer__stack_prefix(m), (int)l->n_head, (int)n);
        for (i = 0; i < 4 && !r; i++) r = infer__flow_shape(w + i, n, n, err);
        for (i = 0; i < 2 && !r; i++) r = infer__flow_fits(v + i, head, err);
        f->room = INFER__MAX(f->room, 3 * n);
        return r;
    case INFER__STEP_TAPS:
        r = infer__flow_shape(w, f->cols, INFER__RELATE_TAPS, err);
        return r ? r : infer__flow_fits(v, f->cols, err);
    default:
        return f->cols == n ? r : infer__error(err, INFER_ERR_FORMAT, "layer %d adds rows of %lld values to %lld",
                                               (int)l->index, (long long)f->cols, (long long)n);
    }
}

/* Convolutions and the matrix of distances are no products of the pass's rows. */
static infer_result infer__conformer_split(infer_model *m, int kind, infer__weight *w, infer_error *err) {
    const int first = kind == INFER__STEP_RELATE ? 3 : 0, end = kind == INFER__STEP_SUBSAMPLE ? 2 : first + 1;
    int i;
    for (i = first; i < end; i++)
        if (w[i].range)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: no range is computed for it", w[i].name);
    return kind == INFER__STEP_SUBSAMPLE ? infer__weight_turn(m, w + 1, 0, 9, err) : INFER_OK;
}

/* ---- what a pass has of a sound ---------------------------------------------------------------------------------- */

/* Pieces of the convolutions: bins of their results, lines of time at once; and in scratch: the first one's result with
 * a border of zeros, what a convolution reads, and what the first one gives. Floats. */
typedef struct infer__subsampling { int32_t wide[2], lines[2], channels[2]; int64_t at[4]; } infer__subsampling;

static void infer__subsample_sizes(const infer_model *m, infer__subsampling *z) {
    int64_t reads = 0;
    int i;
    for (i = 0; i < 2; i++) {
        z->wide[i] = infer__half(i ? z->wide[0] : m->stack.bins);
        z->lines[i] = INFER__CHUNK_PIECE / z->wide[i]; /* of at most 512 bins */
        z->channels[i] = infer__chunk_channels(m, i);
        reads = INFER__MAX(reads, 9 * (int64_t)z->lines[i] * z->wide[i] * (i ? z->channels[0] : 1));
    }
    z->at[0] = 0;
    z->at[1] = (int64_t)(2 * z->lines[1] + 1) * (z->wide[0] + 2) * z->channels[0];
    z->at[2] = z->at[1] + reads;
    z->at[3] = z->at[2] + (int64_t)z->lines[0] * z->wide[0] * z->channels[0];
}

/* Scratch, also that of attention: rows for distances, two rows of factors. Places: of distances 11 .. 0. */
static int infer__conformer_fill(infer_model *m, infer__picture *p) {
    const int32_t n = m->hp.n_embd, half = n / 2;
    infer__subsampling z;
    float *to;
    int32_t i, j;
    infer__subsample_sizes(m, &z);
    if (!infer__picture_buf(m, &p->grid, INFER__MAX(z.at[3], (INFER__RELATE_ROWS + 2) * (int64_t)n), 1) ||
        !infer__picture_buf(m, &p->places, INFER__RELATE_ROWS, n))
        return 0;
    to = (float *)p->places.host;
    for (j = 0; j < INFER__RELATE_ROWS; j++, to += n)
        for (i = 0; i < n; i++) {
            const double angle =
                (INFER__RELATE_ROWS - 1 - j) * exp(-log(10000.0) * (i % INFER__MAX(half, 1)) / INFER__MAX(half - 1, 1));
            to[i] = i >= 2 * half ? 0 : (float)(i < half ? sin(angle) : cos(angle));
        }
    return 1;
}

/* ---- convolutions ------------------------------------------------------------------------------------------------ */

/* What the first one reads for `lines` lines of its result: frames, then bins. */
static void infer__subsample_gather(const infer__picture *p, int32_t y, int32_t lines, int32_t wide, float *to) {
    int32_t line, x, i, j;
    for (line = y; line < y + lines; line++)
        for (x = 0; x < wide; x++)
            for (j = 0; j < 3; j++) { /* the first row is one of zeros, frame -1 */
                const float *from = (const float *)p->pixels[0].host + (int64_t)(2 * line + j) * p->ny;
                for (i = 2 * x - 1; i <= 2 * x + 1; i++) *to++ = i < 0 || i >= p->ny ? 0 : from[i];
            }
}

/* A convolution's product, and its norm. */
static void infer__subsample_product(infer_context *c, const infer__tensor *x, const infer__weight *m,
                                     const infer__weight *b, const infer__weight *norm, const infer__tensor *y) {
    infer__norm_args a = infer__norm_of(c, norm, y, y);
    infer__product(c, x, m, infer__opt(b), y);
    a.kind = INFER__NORM_LAYER;
    a.eps = INFER__CONFORMER_EPS;
    infer__ops_of(&c->ctx)->norm(&c->ctx, &a);
}

static void infer__step_subsample(infer__walk *w, const infer__weight *m, const infer__weight *v) {
    infer_context *c = w->c;
    const infer__picture *p = c->picture;
    infer__buf *scratch = (infer__buf *)(uintptr_t)&p->grid;
    infer__chunk_grid g;
    infer__subsampling z;
    infer__tensor t, x, y, line, to;
    int32_t first, lines, at, some, k;
    infer__subsample_sizes(c->model, &z);
    t = infer__walk_room(w, 1, p->rows, (int64_t)z.wide[1] * z.channels[1]);
    g.at = 0;
    g.wide = z.wide[0];
    g.cols = z.channels[0];
    for (first = 0; first < p->rows && infer__ok(&c->ctx); first += lines) {
        const int32_t before = 2 * first - 1, end = INFER__MIN(2 * (first + z.lines[1]), infer__half(p->nx));
        lines = INFER__MIN(z.lines[1], p->rows - first);
        memset(scratch->host, 0, (size_t)z.at[1] * sizeof(float));
        for (at = INFER__MAX(before, 0); at < end; at += some) {
            some = INFER__MIN(z.lines[0], end - at);
            x = infer__view(scratch, (uint64_t)z.at[1], some * g.wide, 9);
            y = infer__view(scratch, (uint64_t)z.at[2], x.rows, g.cols);
            infer__subsample_gather(p, at, some, g.wide, (float *)scratch->host + z.at[1]);
            infer__subsample_product(c, &x, m, v, v + 2, &y);
            for (k = 0; k < some; k++) {
                line = infer__some_rows(&y, k * g.wide, g.wide);
                to = infer__chunk_line(p, &g, at + k - before, 1, g.wide);
                infer__act_rows(c, INFER__ACT_RELU, &line, &to);
            }
        }
        x = infer__view(scratch, (uint64_t)z.at[1], lines * z.wide[1], 9 * g.cols);
        infer__chunk_read(c, &g, 0, lines, &x);
        y = infer__some_rows(&t, first, lines); /* a row of t has the bins side by side */
        y.rows = x.rows;
        y.cols = y.stride = z.channels[1];
        infer__subsample_product(c, &x, m + 1, v + 1, v + 4, &y);
        infer__act_rows(c, INFER__ACT_RELU, &y, &y);
    }
    infer__walk_to(w, t, 1);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* near: rows of distances, then the factors of queries, and those of keys: of a head. */
typedef struct infer__relating {
    infer_context *c;
    infer__tensor q, k, v, y;
    const float *near_rows;
    int32_t head, heads;
} infer__relating;

static void infer__relate_task(void *arg, int task, int worker) {
    const infer__relating *a = (const infer__relating *)arg;
    const infer__kernels *f = a->c->ctx.kernels;
    const int32_t n = a->head, cols = a->q.cols, last = INFER__MIN(INFER__TASK_OF * (task + 1), a->q.rows);
    const float *times = a->near_rows + INFER__RELATE_ROWS * (int64_t)cols;
    float q[2][INFER__MAX_HEAD_DIM], s[2][INFER__RELATE_ROWS], most, sum;
    int32_t row, h, i;
    (void)worker;
    for (row = INFER__TASK_OF * task; row < last; row++)
        for (h = 0; h < a->heads; h++) {
            const int32_t first = INFER__MAX(row - INFER__RELATE_ROWS + 1, 0), count = row - first + 1;
            const float *from = infer__row(&a->q, row) + (int64_t)h * n;
            float *y = infer__row(&a->y, row) + (int64_t)h * n;
            for (i = 0; i < n; i++) q[1][i] = (q[0][i] = from[i] * times[i]) * times[n + i];
            f->dot(q[1], infer__row(&a->k, first) + (int64_t)h * n, a->k.stride, count, n, s[0]);
            f->dot(q[0], a->near_rows + (INFER__RELATE_ROWS - count) * (int64_t)cols + (int64_t)h * n, cols, count, n,
                   s[1]);
            for (i = 0; i < count; i++) s[0][i] += s[1][i];
            f->softcap(s[0], 1, 50, count);
            for (i = 1, most = s[0][0]; i < count; i++) most = s[0][i] > most ? s[0][i] : most;
            for (i = 0, sum = 0; i < count; i++) sum += s[0][i] = infer__exp_minus_f32(s[0][i] - most);
            memset(y, 0, (size_t)n * sizeof *y);
            for (i = 0; i < count; i++) f->axpy(y, infer__row(&a->v, first + i) + (int64_t)h * n, s[0][i] / sum, n);
        }
}

static void infer__step_relate(infer__walk *w, const infer__weight *m, const infer__weight *v) {
    infer_context *c = w->c;
    const infer__picture *p = c->picture;
    const int32_t cols = w->t.cols, n = cols / w->l->n_head;
    const double two = log(2.0);
    const infer__tensor all = infer__walk_room(w, 1, w->t.rows, 3 * (int64_t)cols),
                        near_to = infer__view((infer__buf *)(uintptr_t)&p->grid, 0, INFER__RELATE_ROWS, cols),
                        near_of = infer__view((infer__buf *)(uintptr_t)&p->places, 0, INFER__RELATE_ROWS, cols);
    float *times = (float *)p->grid.host + INFER__RELATE_ROWS * (int64_t)cols;
    infer__relating a;
    infer__tensor *const parts[3] = { &a.q, &a.k, &a.v };
    double began;
    int32_t i, k;
    for (i = 0; i < 3; i++) {
        *parts[i] = infer__columns(&all, i * cols, cols);
        infer__product(c, &w->t, m + i, NULL, parts[i]);
    }
    infer__product(c, &near_of, m + 3, NULL, &near_to);
    a.c = c;
    a.y = infer__walk_room(w, 2, w->t.rows, cols);
    a.near_rows = (const float *)p->grid.host;
    a.head = n;
    a.heads = w->l->n_head;
    began = infer__op_begin(&c->ctx);
    if (began < 0) return;
    for (k = 0; k < 2; k++) { /* 1 / log 2: softplus(0) is the factor that training begins with */
        const float by = (float)(k ? log(1 + exp(1.0)) / two : 1 / (sqrt((double)n) * two));
        if (v[k].type) v[k].type->decode(v[k].data, times + k * n, n);
        for (i = 0; i < n; i++) times[k * n + i] = v[k].type ? times[k * n + i] * by : by;
    }
    infer__cpu_run(&c->ctx, (w->t.rows + INFER__TASK_OF - 1) / INFER__TASK_OF,
                   (int64_t)w->t.rows * cols * 3 * INFER__RELATE_ROWS, infer__relate_task, &a);
    infer__op_end(&c->ctx, "relative attention", 0, began);
    infer__walk_to(w, a.y, 2);
}

/* ---- the convolution of columns ---------------------------------------------------------------------------------- */

static void infer__step_taps(infer__walk *w, const infer__weight *m, const infer__weight *v) {
    infer__conv_args a;
    memset(&a, 0, sizeof a);
    a.x = w->t;
    a.y = infer__walk_room(w, 1, w->t.rows, w->t.cols);
    a.w = m;
    a.bias = infer__opt(v);
    a.taps = INFER__RELATE_TAPS;
    infer__ops_of(&w->c->ctx)->conv(&w->c->ctx, &a);
    infer__walk_to(w, a.y, 1);
}
