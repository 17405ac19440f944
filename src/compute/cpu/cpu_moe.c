/* cpu_moe.c: mixtures of experts on the CPU: the router's choice, and products of each row of x with its experts'
 * matrices.
 *
 * Owns:  moe_route, moe_matmul and moe_bias.
 * How:   a task of moe_matmul is a few rows of every expert's matrix. It sorts the (token, choice) pairs by expert, so
 *        that an expert's rows are decoded once for all tokens that chose it, or not at all, keeps the result of every
 *        pair, and then writes the results or adds them up in the order of choices.
 *        Quantised experts go through the integer products (cpu_int8.c), F32, F16 and BF16 ones through the float
 *        tiles (cpu_float.c), which need the columns of an expert side by side: they are gathered first. The results of
 *        both go directly to y.
 * Invariant: a token's result depends neither on the other tokens nor on the tasks: its experts are added in the order
 *        of choices, by integer products and float tiles in ascending order of experts. Experts are chosen by the
 *        largest score, the lower index first among equals.
 * Start: infer__moe_task.
 */
#include "../products/cpu_float.h"
#include "../products/cpu_int8.h"

/* ---- router -------------------------------------------------------------------------------------------- */

typedef struct infer__moe_route_job { infer__ctx *c; const infer__moe_route_args *a; } infer__moe_route_job;

static int64_t infer__router_scratch(const infer__router *r) { return 3 * (int64_t)r->n_expert; }

/* A score of its own logit; 0 or more. */
static float infer__router_score(int32_t kind, float x) {
    if (kind == INFER__SCORE_SIGMOID) return 1.0f / (1.0f + expf(-x));
    return sqrtf(infer__softplus(x));
}

/* Scores of all experts. All are NaN when a logit is. */
static void infer__router_scores(const infer__router *r, const float *x, float *p) {
    float max = x[0], sum = 0.0f;
    int32_t i;
    if (r->score != INFER__SCORE_SOFTMAX) {
        for (i = 0; i < r->n_expert; i++) sum += x[i] - x[i]; /* 0, or not a number */
        for (i = 0; i < r->n_expert; i++) p[i] = infer__router_score(r->score, x[i]) + sum;
        return;
    }
    for (i = 1; i < r->n_expert; i++)
        if (x[i] > max) max = x[i];
    for (i = 0; i < r->n_expert; i++) {
        p[i] = expf(x[i] - max);
        sum += p[i];
    }
    for (i = 0; i < r->n_expert; i++) p[i] /= sum;
}

/* The sum of the `best` (1 or 2) largest of v[0 .. n - 1]. */
static float infer__router_group(const float *v, int32_t n, int32_t best) {
    float first = v[0], second = 0.0f;
    int32_t i;
    for (i = 1; i < n; i++) {
        if (best > 1 && (i == 1 || v[i] > second)) second = v[i] > first ? first : v[i];
        if (v[i] > first) first = v[i];
    }
    return best > 1 ? first + second : first;
}

/* Experts of the groups that are not used are marked as chosen already: -1. */
static void infer__router_groups(const infer__router *r, const float *value, float *p, float *group) {
    int32_t each = r->n_expert / r->n_group, g, h, before, i;
    for (g = 0; g < r->n_group; g++) group[g] = infer__router_group(value + g * each, each, r->group_best);
    for (g = 0; g < r->n_group; g++) {
        for (h = before = 0; h < r->n_group; h++)
            before += group[h] > group[g] || (group[h] == group[g] && h < g);
        for (i = 0; i < each && before >= r->group_used; i++) p[g * each + i] = -1.0f;
    }
}

/* left: n_expert floats, 1 = not taken yet. weights: NaN when a logit is. */
static void infer__router_sparsemixer(const infer__router *r, const float *x, float *left, float *weights, float *ids) {
    float wrong = 0.0f;
    int32_t i, j, best;
    for (i = 0; i < r->n_expert; i++) {
        wrong += x[i] - x[i];
        left[i] = 1.0f;
    }
    for (j = 0; j < r->n_used; j++) {
        float max, sum = 0.0f;
        for (best = -1, i = 0; i < r->n_expert; i++)
            if (left[i] != 0.0f && (best < 0 || x[i] > x[best])) best = i;
        max = x[best];
        for (i = 0; i < r->n_expert; i++)
            if (left[i] != 0.0f && !((max - x[i]) / INFER__MAX(fabsf(x[i]), max) > 0.02f)) sum += expf(x[i] - max);
        left[best] = 0.0f;
        memcpy(&ids[j], &best, sizeof best);
        weights[j] = 1.0f / sum + wrong;
    }
}

/* p: scratch of infer__router_scratch floats. */
static void infer__router_choose(const infer__moe_route_args *a, const float *x, float *p, float *weights, float *ids) {
    const infer__router *r = a->router;
    const float *value = x, *bias;
    float *made = p + r->n_expert;
    int32_t i, j, best;
    infer__router_scores(r, x, p);
    if (a->bias || r->n_group > 1) {
        bias = a->bias ? infer__weight_values(a->bias, 0, r->n_expert, made + r->n_expert) : NULL;
        for (i = 0; i < r->n_expert; i++) made[i] = p[i] + (bias ? bias[i] : 0.0f);
        value = made;
        if (r->n_group > 1) infer__router_groups(r, value, p, made + r->n_expert);
    }
    for (j = 0; j < r->n_used; j++) {
        best = -1;
        for (i = 0; i < r->n_expert; i++) /* chosen ones are -1; x, since equal x could round to unequal p */
            if (p[i] >= 0.0f && (best < 0 || value[i] > value[best])) best = i;
        if (best < 0) best = j; /* all scores are NaN: any expert, with a NaN weight */
        memcpy(&ids[j], &best, sizeof best);
        weights[j] = p[best];
        p[best] = -1.0f;
    }
}

/* The choice that a table has for a row's id. */
static void infer__router_look_up(const infer__moe_route_args *a, int32_t id, const float *x, float *p, float *weights,
                                  float *ids) {
    int64_t stride;
    const float *chosen = infer__weight_rows(a->table, id, 1, p + a->router->n_expert, &stride);
    int32_t j, expert;
    infer__router_scores(a->router, x, p);
    for (j = 0; j < a->router->n_used; j++) {
        expert = (int32_t)chosen[j];
        memcpy(&ids[j], &expert, sizeof expert);
        weights[j] = p[expert];
    }
}

static void infer__moe_route_task(void *arg, int row, int worker) {
    const infer__moe_route_job *job = (const infer__moe_route_job *)arg;
    const infer__router *r = job->a->router;
    const float *x = infer__row(&job->a->x, row);
    float *p = infer__cpu_scratch(job->c, worker), *weights = infer__row(&job->a->weights, row);
    float *ids = infer__row(&job->a->ids, row), sum = 0.0f, scale;
    const float *scales;
    int32_t j, id;
    if (r->score == INFER__SCORE_SPARSEMIXER) infer__router_sparsemixer(r, x, p, weights, ids);
    else if (job->a->table && job->c->pass.ids[row] >= 0)
        infer__router_look_up(job->a, job->c->pass.ids[row], x, p, weights, ids);
    else infer__router_choose(job->a, x, p, weights, ids);
    for (j = 0; j < r->n_used; j++) {
        sum += weights[j];
        if (!job->a->per_group) continue;
        memcpy(&id, &ids[j], sizeof id);
        id /= job->a->per_group;
        memcpy(infer__row(&job->a->groups, row) + j, &id, sizeof id);
    }
    if (sum < r->floor) sum = r->floor;
    scale = r->normalise ? r->scale / sum : r->scale;
    for (j = 0; j < r->n_used; j++) weights[j] *= scale;
    if (!job->a->scales) return;
    scales = infer__weight_values(job->a->scales, 0, r->n_expert, p);
    for (j = 0; j < r->n_used; j++) {
        memcpy(&id, &ids[j], sizeof id);
        weights[j] *= scales[id];
    }
}

static void infer__cpu_moe_route(infer__ctx *c, const infer__moe_route_args *a) {
    const infer__router *r = a->router;
    infer__moe_route_job job;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->bias, "biases of experts")) return;
    if (!infer__vector_ok(c, a->scales, "scales of experts")) return;
    INFER__ASSERT(r->n_used <= r->n_expert && a->x.cols >= r->n_expert);
    INFER__ASSERT(r->n_group <= 1 || (r->n_expert % r->n_group == 0 && r->n_group <= INFER__MAX_EXPERT_GROUPS &&
                                      r->n_used <= r->n_expert / r->n_group * r->group_used));
    if (infer__router_scratch(r) > c->cpu->scratch_len) {
        infer__fail(c, INFER_ERR_UNSUPPORTED, "%d experts are too many", (int)r->n_expert);
        return;
    }
    job.c = c;
    job.a = a;
    infer__cpu_run(c, a->x.rows, (int64_t)a->x.rows * r->n_expert * (8 + r->n_used), infer__moe_route_task, &job);
    infer__op_end(c, "moe_route", 0, began);
}

/* ---- matrices of experts ---------------------------------------------------------------------------------- */

typedef struct infer__moe_job {
    infer__ctx *c;
    const infer__moe_matmul_args *a;
    int32_t n_expert, each; /* rows from an expert's matrix to the next */
    int32_t step;           /* rows per task */
    int32_t tokens;         /* done at once, so that their results fit on the scratch */
    infer__int8_weight int8;
    /* float tiles: the pairs by expert (infer__moe_sort) and their columns of x, at c->cpu->float_x, in that order */
    int32_t *start, *order, panel; /* columns at once, as their results must fit on the scratch */
    int32_t prepared;              /* the columns are rounded for BF16 weights */
    int64_t x_bytes;               /* of a column */
} infer__moe_job;

static int32_t infer__moe_id(const infer__moe_matmul_args *a, int32_t pair) {
    int32_t id;
    memcpy(&id, infer__row(&a->ids, pair / a->n_used) + pair % a->n_used, sizeof id);
    return id;
}

/* Pairs first .. first+n-1 by expert: those of expert e are order[start[e]] .. order[start[e+1]-1], ascending. */
static void infer__moe_sort(const infer__moe_job *job, int32_t first, int32_t n, int32_t *start, int32_t *order) {
    int32_t i, e;
    memset(start, 0, ((size_t)job->n_expert + 1) * sizeof *start);
    for (i = 0; i < n; i++) start[infer__moe_id(job->a, first + i) + 1]++;
    for (e = 0; e < job->n_expert; e++) start[e + 1] += start[e];
    for (i = 0; i < n; i++) order[start[infer__moe_id(job->a, first + i)]++] = first + i;
    for (e = job->n_expert; e > 0; e--) start[e] = start[e - 1]; /* back from ends to starts */
    start[0] = 0;
}

/* Rows r .. r+n-1 of every expert for tokens t .. t+n_tokens-1. */
static void infer__moe_tokens(const infer__moe_job *job, int32_t r, int32_t n, int32_t t, int32_t n_tokens,
                              float *scratch) {
    const infer__moe_matmul_args *a = job->a;
    const infer__kernels *k = job->c->kernels;
    int32_t pairs = n_tokens * a->n_used, first = t * a->n_used, e, i, j, pair;
    int32_t *start = (int32_t *)(void *)scratch, *order = start + job->n_expert + 1;
    float *results = scratch + job->n_expert + 1 + pairs, *tile = results + (int64_t)pairs * n;
    const float *rows;
    int64_t stride;
    infer__moe_sort(job, first, pairs, start, order);
    for (e = 0; e < job->n_expert; e++) {
        if (start[e] == start[e + 1]) continue;
        rows = infer__weight_rows(a->w, (int64_t)e * job->each + r, n, tile, &stride);
        for (i = start[e]; i < start[e + 1]; i++) {
            pair = order[i];
            k->tile(rows, stride, n, infer__row(&a->x, a->per_expert_x ? pair : pair / a->n_used), 0, 1, a->w->cols,
                    results + (int64_t)(pair - first) * n, 0);
        }
    }
    for (i = 0; i < n_tokens; i++) {
        const float *weights = a->weights.buf ? infer__row(&a->weights, t + i) : NULL;
        float *sum = weights ? infer__row(&a->y, t + i) + r : NULL;
        const float *y = results + (int64_t)i * a->n_used * n;
        if (sum) memset(sum, 0, (size_t)n * sizeof *sum);
        for (j = 0; j < a->n_used; j++, y += n) {
            if (sum) k->axpy(sum, y, weights[j], n);
            else memcpy(infer__row(&a->y, first + i * a->n_used + j) + r, y, (size_t)n * sizeof *y);
        }
    }
}

/* Where results are added up, rows first .. end-1 of y start as zeros. */
static void infer__moe_clear(const infer__moe_job *job, int32_t first, int32_t end) {
    int32_t t;
    for (t = 0; job->a->weights.buf && t < job->a->ids.rows; t++)
        memset(infer__row(&job->a->y, t) + first, 0, (size_t)(end - first) * sizeof(float));
}

/* Rows r .. r+n-1 of a pair's result to y. */
static void infer__moe_put(const infer__moe_job *job, int32_t pair, int32_t r, int32_t n, const float *y) {
    const infer__moe_matmul_args *a = job->a;
    int32_t token = pair / a->n_used;
    if (a->weights.buf)
        job->c->kernels->axpy(infer__row(&a->y, token) + r, y, infer__row(&a->weights, token)[pair % a->n_used], n);
    else memcpy(infer__row(&a->y, pair) + r, y, (size_t)n * sizeof *y);
}

/* The same by integer products, rows first .. end-1 of every expert: expert by expert, so that its columns of x stay in
 * the cache, and the next rows can be prefetched. */
static void infer__moe_int8_tokens(const infer__moe_job *job, int32_t first, int32_t end, int32_t t, int32_t n_tokens,
                                   infer__int8_scratch *s) {
    const infer__moe_matmul_args *a = job->a;
    const infer__int8_weight *w = &job->int8;
    const int32_t pairs = n_tokens * a->n_used;
    float *behind = (float *)(void *)s + infer__int8_scratch_len(job->c->cpu->panel);
    int32_t *start = (int32_t *)(void *)behind, *order = start + job->n_expert + 1, *tokens = order + pairs;
    const int32_t *rows; /* of y */
    infer__int8_block b;
    int32_t e, i, j, r, next;
    memset(&b, 0, sizeof b);
    b.x_rows = a->x.rows;
    infer__moe_sort(job, t * a->n_used, pairs, start, order);
    for (i = 0; i < pairs; i++) tokens[i] = order[i] / a->n_used;
    for (e = 0; e < job->n_expert && start[e] == start[e + 1]; e++) {}
    if (e < job->n_expert) infer__int8_cold(w, (int64_t)e * job->each + first);
    for (; e < job->n_expert; e = next) {
        for (next = e + 1; next < job->n_expert && start[next] == start[next + 1]; next++) {}
        for (r = first; r < end; r += b.n) {
            b.n = INFER__MIN(end - r, INFER__INT8_ROWS);
            b.r = (int64_t)e * job->each + r;
            b.next = r + b.n < end ? b.r + b.n : next < job->n_expert ? (int64_t)next * job->each + first : w->rows;
            for (i = start[e]; i < start[e + 1]; i += b.n_x) {
                b.n_x = INFER__MIN(start[e + 1] - i, job->c->cpu->panel);
                b.cols = (a->per_expert_x ? order : tokens) + i;
                rows = (a->weights.buf ? tokens : order) + i;
                infer__int8_rows(job->c, w, &b, s);
                for (j = 0; j < b.n_x; j++) {
                    if (j + INFER__INT8_AHEAD < b.n_x) infer__int8_ask_y(&a->y, rows[j + INFER__INT8_AHEAD], r, b.n);
                    infer__moe_put(job, order[i + j], r, b.n, s->y + (int64_t)j * INFER__INT8_ROWS);
                }
            }
        }
    }
}

static void infer__moe_int8_task(void *arg, int task, int worker) {
    const infer__moe_job *job = (const infer__moe_job *)arg;
    infer__int8_scratch *s = (infer__int8_scratch *)(void *)infer__cpu_scratch(job->c, worker);
    int32_t first = task * job->step, end = INFER__MIN(first + job->step, job->a->rows), tokens = job->a->ids.rows, t;
    infer__moe_clear(job, first, end);
    for (t = 0; t < tokens; t += job->tokens)
        infer__moe_int8_tokens(job, first, end, t, INFER__MIN(job->tokens, tokens - t), s);
}

/* Rows per task: whole blocks, at most `most`, chosen so that the threads finish at the same time. */
static int32_t infer__moe_int8_step(const infer__ctx *c, int32_t rows, int32_t most) {
    const int32_t threads = infer__pool_threads(c->pool);
    int32_t step = INFER__MAX(most / INFER__INT8_ROWS * INFER__INT8_ROWS, INFER__INT8_ROWS), best = step;
    int64_t least = INT64_MAX, end;
    for (; step > 0; step -= INFER__INT8_ROWS) {
        const int64_t tasks = (rows + step - 1) / step;
        end = (tasks + threads - 1) / threads * step;
        if (end >= least) continue;
        least = end;
        best = step;
    }
    return best;
}

static void infer__moe_task(void *arg, int task, int worker) {
    const infer__moe_job *job = (const infer__moe_job *)arg;
    int32_t r = task * job->step, n = INFER__MIN(job->step, job->a->rows - r), t, tokens = job->a->ids.rows;
    for (t = 0; t < tokens; t += job->tokens)
        infer__moe_tokens(job, r, n, t, INFER__MIN(job->tokens, tokens - t), infer__cpu_scratch(job->c, worker));
}

/* ---- matrices of experts by float tiles ------------------------------------------------------------------------ */

static int64_t infer__moe_float_row(int32_t cols) { return ((int64_t)cols + 31) / 32 * 128; } /* prepared or not */

static uint64_t infer__float_experts_bytes(int32_t float_cols, uint64_t pairs, int32_t n_expert) {
    if (float_cols == 0) return 0;
    return pairs * ((uint64_t)infer__moe_float_row(float_cols) + sizeof(int32_t)) +
           ((uint64_t)n_expert + 1) * sizeof(int32_t);
}

static void infer__need_experts(infer__needs *n, const infer__weight *w, int32_t n_expert, int32_t n_used,
                                int32_t sum_cols) {
    if (!w->type) return;
    n->n_expert = INFER__MAX(n->n_expert, n_expert);
    n->n_used = INFER__MAX(n->n_used, n_used);
    if (infer__float_kind(w->type) >= 0) n->float_cols = INFER__MAX(n->float_cols, w->cols);
    if (sum_cols == 0) return;
    n->expert_cols = INFER__MAX(n->expert_cols, w->cols);
    n->sum_cols = INFER__MAX(n->sum_cols, sum_cols);
}

/* The columns of pair i, of those in order; or, prepared, of all pairs of expert i. */
static void infer__moe_gather_task(void *arg, int i, int worker) {
    const infer__moe_job *job = (const infer__moe_job *)arg;
    const int32_t each = job->a->per_expert_x ? 1 : job->a->n_used, first = job->prepared ? job->start[i] : i;
    uint8_t *to = job->c->cpu->float_x + first * job->x_bytes;
    (void)worker;
    if (job->prepared)
        infer__float_put(job->c->floats, &job->a->x, job->order + first, each, job->start[i + 1] - first, to);
    else memcpy(to, infer__row(&job->a->x, job->order[i] / each), (size_t)job->a->w->cols * sizeof(float));
}

static void infer__moe_float_task(void *arg, int task, int worker) {
    const infer__moe_job *job = (const infer__moe_job *)arg;
    const infer__moe_matmul_args *a = job->a;
    int32_t r = task * job->step, n = INFER__MIN(job->step, a->rows - r), e, i, j, panel;
    float *y = infer__cpu_scratch(job->c, worker) + infer__float_scratch_len(job->c->floats, a->w->cols);
    infer__moe_clear(job, r, r + n);
    for (e = 0; e < job->n_expert; e++)
        for (i = job->start[e]; i < job->start[e + 1]; i += panel) {
            panel = INFER__MIN(job->start[e + 1] - i, job->panel);
            infer__float_tile(job->c, a->w, e * job->each + r, n, job->c->cpu->float_x + i * job->x_bytes, job->x_bytes,
                              panel, job->start[e + 1] - job->start[e], NULL, y, n, worker);
            for (j = 0; j < panel; j++) infer__moe_put(job, job->order[i + j], r, n, y + (int64_t)j * n);
        }
}

static void infer__moe_floats(infer__moe_job *job) {
    infer__ctx *c = job->c;
    const infer__moe_matmul_args *a = job->a;
    int64_t left = c->cpu->scratch_len - infer__float_scratch_len(c->floats, a->w->cols), work;
    int32_t pairs = a->ids.rows * a->n_used, most = 0, least, e;
    INFER__ASSERT(infer__float_experts_bytes(a->w->cols, (uint64_t)pairs, job->n_expert) <= c->cpu->float_x_bytes);
    job->x_bytes = job->prepared ? infer__float_row_bytes(c->floats, a->w->cols) : infer__moe_float_row(a->w->cols);
    job->start = (int32_t *)(void *)(c->cpu->float_x + pairs * infer__moe_float_row(a->w->cols));
    job->order = job->start + job->n_expert + 1;
    infer__moe_sort(job, 0, pairs, job->start, job->order);
    for (e = 0; e < job->n_expert; e++) most = INFER__MAX(most, job->start[e + 1] - job->start[e]);
    job->step = INFER__MIN(a->rows / (4 * infer__pool_threads(c->pool)), infer__float_task_rows(c, a->w, most));
    least = infer__float_least(c, a->w, most);
    job->step = (int32_t)INFER__MIN(job->step, left / 16); /* results of 16 columns at least */
    job->step = INFER__MAX(job->step / least * least, least);
    job->panel = (int32_t)INFER__MIN(left / job->step, pairs);
    if (job->panel < pairs) job->panel &= ~15; /* whole groups of columns that were prepared together */
    INFER__ASSERT(job->panel > 0);
    work = (int64_t)pairs * a->w->cols;
    infer__cpu_run(c, job->prepared ? job->n_expert : pairs, work, infer__moe_gather_task, job);
    infer__cpu_run(c, (a->rows + job->step - 1) / job->step, work * a->rows, infer__moe_float_task, job);
}

/* ---- the op ------------------------------------------------------------------------------------------------------ */

static void infer__moe_op_end(infer__moe_job *job, int64_t pairs, double began) {
    uint64_t used = (uint64_t)INFER__MIN(pairs, job->n_expert); /* at most: tokens may share experts */
    infer__op_end(job->c, "moe_matmul", used * (uint64_t)job->a->rows * job->a->w->row_bytes, began);
}

static void infer__cpu_moe_matmul(infer__ctx *c, const infer__moe_matmul_args *a) {
    infer__moe_job job;
    int64_t pairs = (int64_t)a->ids.rows * a->n_used, left, step, tokens;
    int int8 = infer__int8_usable(c, a->w);
    double began = infer__op_begin(c);
    if (began < 0) return;
    job.c = c;
    job.a = a;
    job.each = a->step ? a->step : a->rows;
    job.n_expert = (a->w->rows + job.each - a->rows) / job.each;
    INFER__ASSERT(a->x.cols == a->w->cols && a->x.rows == (a->per_expert_x ? pairs : a->ids.rows));
    if (!int8 && infer__float_usable(c, a->w, &job.prepared)) {
        infer__moe_floats(&job);
        infer__moe_op_end(&job, pairs, began);
        return;
    }
    /* scratch: n_expert + 1 starts; per pair its place in the order and `step` results; `step` decoded rows */
    left = c->cpu->scratch_len - job.n_expert - 1;
    if (int8) { /* or per pair its place in the order and the row of x */
        left -= infer__int8_scratch_len(c->cpu->panel);
        step = infer__moe_int8_step(c, a->rows, INFER__MIN(a->rows / (4 * infer__pool_threads(c->pool)),
                                                           INFER__TASK_ROWS));
        tokens = left / (2 * a->n_used);
        infer__int8_weight_init(c, a->w, &job.int8);
    } else {
        step = (left - pairs) / (a->w->cols + pairs);
        step = INFER__MIN(step, INFER__TILE_ROWS);
        step = INFER__MIN(step, a->rows / (4 * infer__pool_threads(c->pool)));
        step = INFER__MAX(step > 4 ? step & ~(int64_t)3 : step, 1);
        tokens = (left - step * a->w->cols) / (a->n_used * (step + 1));
    }
    if (tokens < 1) {
        infer__fail(c, INFER_ERR_UNSUPPORTED, "%d experts of %d columns do not fit on the scratch memory",
                    (int)job.n_expert, (int)a->w->cols);
        return;
    }
    job.step = (int32_t)step;
    job.tokens = (int32_t)INFER__MIN(tokens, a->ids.rows);
    if (int8) infer__x8_prepare(c, &a->x);
    infer__cpu_run(c, (int)((a->rows + step - 1) / step), pairs * a->rows * a->w->cols,
                   int8 ? infer__moe_int8_task : infer__moe_task, &job);
    infer__moe_op_end(&job, pairs, began);
}

/* ---- biases ------------------------------------------------------------------------------------------------------ */

typedef struct infer__moe_bias_job {
    infer__ctx *c;
    const infer__moe_bias_args *a;
    int32_t step, parts; /* columns of a task, tasks of a row */
} infer__moe_bias_job;

/* Some columns of a row of y. */
static void infer__moe_bias_task(void *arg, int task, int worker) {
    const infer__moe_bias_job *job = (const infer__moe_bias_job *)arg;
    const infer__moe_bias_args *a = job->a;
    int32_t row = task / job->parts, col = task % job->parts * job->step, n = INFER__MIN(job->step, a->y.cols - col);
    int32_t used = a->weights.buf ? a->n_used : 1, j, id;
    float *y = infer__row(&a->y, row) + col;
    for (j = 0; j < used; j++) {
        int32_t pair = row * used + j, token = pair / a->n_used, choice = pair % a->n_used;
        memcpy(&id, infer__row(&a->ids, token) + choice, sizeof id);
        job->c->kernels->axpy(y, infer__weight_values(a->bias, (int64_t)id * a->y.cols + col, n,
                                                      infer__cpu_scratch(job->c, worker)),
                              a->weights.buf ? infer__row(&a->weights, token)[choice] : 1.0f, n);
    }
}

static void infer__cpu_moe_bias(infer__ctx *c, const infer__moe_bias_args *a) {
    infer__moe_bias_job job;
    double began = infer__op_begin(c);
    if (began < 0 || !infer__vector_ok(c, a->bias, "biases of experts")) return;
    INFER__ASSERT(a->y.rows == (a->weights.buf ? 1 : a->n_used) * a->ids.rows && a->bias->cols % a->y.cols == 0);
    job.c = c;
    job.a = a;
    job.step = (int32_t)INFER__MIN(INFER__MIN(c->cpu->scratch_len, 2048), a->y.cols);
    job.parts = (a->y.cols + job.step - 1) / job.step;
    infer__cpu_run(c, a->y.rows * job.parts, (int64_t)a->ids.rows * a->n_used * a->y.cols, infer__moe_bias_task, &job);
    infer__op_end(c, "moe_bias", 0, began);
}
