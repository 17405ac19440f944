/* test_gpu_moe.c: mixtures of experts on devices against the CPU: the router's choice, and products with the matrices of
 * experts, pair by pair and by tiles. Part of test_gpu_ops.c, whose helpers it uses. */

/* ---- the router's choice ----------------------------------------------------------------------------------------- */

static void gpu_moe_route_case(gpu_pair *p, int32_t rows, const infer__router *r, int with_bias) {
    gpu_tensor x, ids, weights;
    gpu_weight w, scales, table;
    infer__moe_route_args a;
    char name[160];
    int32_t i, j, n = r->n_expert;
    snprintf(name, sizeof name, "%d rows, %d of %d experts, score %d, %d of %d groups by %d, bias %d", (int)rows,
             (int)r->n_used, (int)n, (int)r->score, (int)r->group_used, (int)r->n_group, (int)r->group_best, with_bias);
    check_detail = name;
    memset(&w, 0, sizeof w);
    memset(&scales, 0, sizeof scales);
    memset(&table, 0, sizeof table);
    memset(&a, 0, sizeof a);
    gpu_make(p, &x, rows, n, 2, 1);
    gpu_make(p, &ids, rows, 2 * r->n_used, 1, 3); /* and their groups */
    gpu_make(p, &weights, rows, r->n_used, 0, 2);
    for (i = 0; i < rows; i++) { /* the last row is all equal, others have equal ones */
        float *v = infer__row(&x.cpu, i);
        for (j = 0; j < n; j++) v[j] = i + 1 == rows ? 3 : j % 7 == 3 ? 0.9f : 6 * v[j];
        if (i == 0 && n > 20) v[n - 1] = -40; /* a score that is hardly more than 0 */
    }
    gpu_send(p, &x);
    if (with_bias) {
        float *v = (float *)malloc((size_t)n * sizeof *v);
        a.bias = gpu_vector_make(p, &w, 0, n);
        a.bias->type->decode(a.bias->data, v, n);
        for (j = 1; j < n; j++) CHECK(v[j] != v[0]); /* it does choose */
        free(v);
    }
    if (rows % 2) a.scales = gpu_vector_make(p, &scales, 0, n);
    if (rows % 3 == 2 && r->score != INFER__SCORE_SPARSEMIXER) { /* rows with an id have theirs in a table */
        int32_t *experts = (int32_t *)malloc((size_t)(rows * r->n_used) * sizeof *experts);
        for (i = 0; i < rows * r->n_used; i++) experts[i] = (i * 7 + 3) % n;
        a.table = gpu_weight_of(p, &table, infer__quant_find(26, NULL), experts, rows, r->n_used, 0);
    }
    p->cpu.pass.n_rows = rows;
    for (i = 0; i < rows; i++) p->cpu.pass.ids[i] = i % 4 == 1 ? -1 : rows - 1 - i;
    gpu_begin(p);
    a.router = r;
    a.x = x.cpu;
    a.per_group = rows % 4; /* 0: not wanted */
    a.ids = infer__columns(&ids.cpu, 0, r->n_used);
    a.groups = infer__columns(&ids.cpu, r->n_used, r->n_used);
    a.weights = weights.cpu;
    p->cpu.ops->moe_route(&p->cpu, &a);
    a.x = x.gpu;
    a.ids = infer__columns(&ids.gpu, 0, r->n_used);
    a.groups = infer__columns(&ids.gpu, r->n_used, r->n_used);
    a.weights = weights.gpu;
    p->gpu.ops->moe_route(&p->gpu, &a);
    gpu_same(p, &ids.on_cpu, &ids.on_gpu);
    gpu_near(p, &weights, r->score == INFER__SCORE_SQRT_SOFTPLUS ? 3 : 0.5, NULL);
    gpu_weight_drop(p, &w);
    gpu_weight_drop(p, &scales);
    gpu_weight_drop(p, &table);
    gpu_drop(p, &x);
    gpu_drop(p, &ids);
    gpu_drop(p, &weights);
    check_detail = "";
}

static infer__router gpu_router(int32_t n_expert, int32_t n_used, int normalise) {
    infer__router r;
    memset(&r, 0, sizeof r);
    r.n_expert = n_expert;
    r.n_used = n_used;
    r.normalise = normalise;
    r.floor = 1e-20f;
    r.scale = 2.5f;
    return r;
}

/* One logit that is not a number: weights say so, ids are experts that there are. */
static void gpu_moe_route_nan(gpu_pair *p, int32_t score) {
    gpu_tensor x, ids, weights;
    infer__router r = gpu_router(70, 3, 1);
    infer__moe_route_args a;
    int32_t g, j, id;
    r.score = score;
    memset(&a, 0, sizeof a);
    gpu_make(p, &x, 1, 70, 0, 0);
    gpu_make(p, &ids, 1, 3, 0, 0);
    gpu_make(p, &weights, 1, 3, 0, 0);
    infer__row(&x.cpu, 0)[66] = infer__bits_f32(0x7fc00000u);
    gpu_send(p, &x);
    a.router = &r;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p->gpu : &p->cpu;
        const float *w, *at;
        a.x = g ? x.gpu : x.cpu;
        a.ids = g ? ids.gpu : ids.cpu;
        a.weights = g ? weights.gpu : weights.cpu;
        c->ops->moe_route(c, &a);
        at = g ? (float *)gpu_fetch(p, &ids.on_gpu) : infer__row(&ids.cpu, 0);
        w = g ? (float *)gpu_fetch(p, &weights.on_gpu) : infer__row(&weights.cpu, 0);
        for (j = 0; j < 3; j++) {
            memcpy(&id, &at[j], sizeof id);
            CHECK(id >= 0 && id < 70 && !infer__finite(w[j]));
        }
        if (g) { free((void *)(uintptr_t)at); free((void *)(uintptr_t)w); }
    }
    gpu_drop(p, &x);
    gpu_drop(p, &ids);
    gpu_drop(p, &weights);
}

static void test_gpu_ops_moe_route(void) {
    static const struct { int16_t rows, n_expert, n_used; int8_t normalise, score, bias, n_group, used, best, small; }
    cases[] = {
        { 2, 1, 1, 1, 0, 0, 0, 0, 0, 1 },      { 3, 65, 4, 0, 0, 0, 0, 0, 0, 1 },   { 2, 1024, 3, 1, 0, 0, 0, 0, 0, 1 },
        { 3, 70, 5, 1, 1, 1, 0, 0, 0, 1 },     { 3, 1024, 8, 1, 1, 1, 64, 7, 2, 1 }, { 2, 12, 2, 0, 2, 0, 3, 1, 1, 1 },
        { 5, 3, 3, 1, 0, 0, 0, 0, 0, 0 },      { 7, 8, 2, 1, 0, 1, 0, 0, 0, 0 },    { 4, 64, 6, 0, 1, 0, 0, 0, 0, 0 },
        { 70, 257, 8, 1, 2, 1, 0, 0, 0, 0 },   { 3, 1000, 70, 0, 0, 0, 0, 0, 0, 0 }, { 9, 256, 8, 1, 1, 1, 8, 4, 2, 0 },
        { 9, 160, 6, 0, 0, 0, 8, 3, 1, 0 },    { 3, 64, 64, 1, 1, 1, 64, 64, 2, 0 }, { 2, 6, 2, 1, 1, 1, 6, 2, 2, 0 },
        { 3, 16, 2, 0, 3, 0, 0, 0, 0, 1 },     { 5, 70, 4, 1, 3, 0, 0, 0, 0, 0 } };
    gpu_pair p;
    size_t i;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 70, 1, 1);
        for (i = 0; i < sizeof cases / sizeof *cases; i++) {
            infer__router r = gpu_router(cases[i].n_expert, cases[i].n_used, cases[i].normalise);
            r.score = cases[i].score;
            r.n_group = cases[i].n_group;
            r.group_used = cases[i].used;
            r.group_best = cases[i].best;
            if (cases[i].small || !gpu_small()) gpu_moe_route_case(&p, cases[i].rows, &r, cases[i].bias);
        }
        for (i = 0; i <= INFER__SCORE_SPARSEMIXER; i++) gpu_moe_route_nan(&p, (int32_t)i);
        gpu_pair_close(&p);
    }
}

/* ---- biases of experts ------------------------------------------------------------------------------------------- */

static void gpu_moe_bias_case(gpu_pair *p, int32_t n, int32_t used, int32_t experts, int32_t cols, int sum) {
    gpu_tensor y, ids, weights;
    gpu_weight w;
    infer__moe_bias_args a;
    int32_t t, j, id;
    memset(&w, 0, sizeof w);
    memset(&a, 0, sizeof a);
    gpu_make(p, &y, sum ? n : n * used, cols, 3, 1);
    gpu_make(p, &ids, n, used, 2, 0);
    gpu_make(p, &weights, n, used, 1, 3);
    for (t = 0; t < n; t++)
        for (j = 0; j < used; j++) {
            id = (t * 7 + j * 3) % experts;
            memcpy(infer__row(&ids.cpu, t) + j, &id, sizeof id);
        }
    gpu_send(p, &ids);
    a.bias = gpu_vector_make(p, &w, cols % 2, experts * cols);
    a.n_used = used;
    a.y = y.cpu;
    a.ids = ids.cpu;
    if (sum) a.weights = weights.cpu;
    p->cpu.ops->moe_bias(&p->cpu, &a);
    a.y = y.gpu;
    a.ids = ids.gpu;
    if (sum) a.weights = weights.gpu;
    p->gpu.ops->moe_bias(&p->gpu, &a);
    gpu_near(p, &y, 2 + used, NULL);
    gpu_weight_drop(p, &w);
    gpu_drop(p, &y);
    gpu_drop(p, &ids);
    gpu_drop(p, &weights);
}

static void test_gpu_ops_moe_bias(void) {
    gpu_pair p;
    int d, sum;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        for (sum = 0; sum < 2; sum++) {
            gpu_moe_bias_case(&p, 1, 1, 1, 1, sum);
            gpu_moe_bias_case(&p, 5, 4, 7, 300, sum);
            if (!gpu_small()) gpu_moe_bias_case(&p, 33, 2, 32, 2880, sum);
        }
        gpu_pair_close(&p);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

enum { GPU_MOE_SPREAD, GPU_MOE_ONE, GPU_MOE_LAST, GPU_MOE_SOME }; /* who chooses what */

/* The expert that row t has as its choice j. ONE: the middle one for all (and those after it); LAST: the last for all;
 * SOME: every third is not chosen. */
static int32_t gpu_moe_choice(int how, int32_t t, int32_t j, int32_t experts) {
    uint32_t n = (uint32_t)experts, at = (uint32_t)(t * 7 + j * 3) % n;
    if (how == GPU_MOE_ONE) return (int32_t)((n / 2 + (uint32_t)j) % n);
    if (how == GPU_MOE_LAST) return (int32_t)(n - 1 - (uint32_t)j % n);
    if (how == GPU_MOE_SOME) return (int32_t)(at % 3 == 1 ? at - 1 : at);
    return (int32_t)at;
}

typedef struct gpu_moe {
    int32_t n, experts, used, rows, cols;
    int down; /* x has a row per token and choice, and the results of a token are summed by weight */
    int how;
} gpu_moe;

/* Which matrix units multiply matrices of a type: 0 none, 1 tensor cores, 2 AMD's or tensor cores of 7.5. */
static int gpu_moe_units(const gpu_pair *p, const infer__quant *q) {
    if (infer__gpu_find(p->gpu.run, INFER__MODULE_MMA, q->id)) return 1;
    return infer__gpu_find(p->gpu.run, INFER__MODULE_MATRIX, q->id) || infer__gpu_find(p->gpu.run, INFER__MODULE_TURING, q->id) ? 2 : 0;
}

/* How x of many rows is multiplied here: 0 as it is, 1 as halves, 2 as BF16. */
static int gpu_moe_halves(const gpu_pair *p, const infer__quant *q, const gpu_moe *m) {
    const int units = gpu_moe_units(p, q);
    uint64_t rows = (uint64_t)(m->down ? m->n * m->used : m->n);
    uint64_t line = (units == 1 ? infer__gpu_line_step(m->cols) : infer__gpu_half_step(m->cols)) * 2 + 4;
    if (m->n <= INFER__GPU_FEW || p->gpu.exact || rows * line > p->gpu.run->x8.bytes || units == 0 ||
        (units == 1 && q->values == 1 && m->cols % 8 != 0))
        return 0;
    return q->id == INFER__GPU_BF16 ? 2 : 1;
}

/* gpu_near by the sizes of the results' terms, of so many, with room for x and weights as halves: 2^-11 of the value at
 * most, 2^-25 for small weights (MI200: 2^-18, kernels/special/hip_units.k); x as BF16: 2^-9. Signs vary, so that all results together are much nearer. */
static void gpu_moe_near(gpu_pair *p, gpu_tensor *y, double *sizes, int halves, int32_t terms) {
    int64_t i, n = (int64_t)y->cpu.rows * y->cpu.cols, row, col;
    double error = 0, norm = 0, small = strstr(infer__gpu_name(p->gpu.gpu), "gfx90a") ? 4e-6 : 3e-8;
    float *z = (float *)gpu_fetch(p, &y->on_gpu);
    for (i = 0; i < n && halves; i++) {
        double v, d;
        row = i / y->cpu.cols;
        col = i % y->cpu.cols;
        v = infer__row(&y->cpu, (int32_t)row)[col];
        d = z[y->cpu.offset / sizeof *z + (uint64_t)(row * y->cpu.stride + col)] - v;
        error += d * d;
        norm += v * v;
        sizes[i] = sizes[i] * (halves == 2 ? 1000 : 500) + 256 * small / GPU_TOLERANCE * terms; /* x is up to 256 */
    }
    if (halves) CHECK(error <= (halves == 2 ? 2e-5 : 1e-6) * norm);
    free(z);
    gpu_near(p, y, 0, sizes);
}

/* The op twice with one choice, which takes so many launches. */
static void gpu_moe_case(gpu_pair *p, const infer__quant *q, const gpu_moe *m, uint64_t launches) {
    int32_t outs = m->down ? m->n : m->n * m->used, t, j, r;
    gpu_tensor x, y, ids, weights;
    gpu_weight w;
    infer__moe_matmul_args a;
    double *sizes = (double *)calloc((size_t)(outs * m->rows), sizeof *sizes);
    float *v = ops_floats((size_t)m->cols);
    char name[120];
    snprintf(name, sizeof name, "%s, %d rows, %d of %d experts, %d x %d, down %d, how %d", q->name, (int)m->n,
             (int)m->used, (int)m->experts, (int)m->rows, (int)m->cols, m->down, m->how);
    check_detail = name;
    memset(&a, 0, sizeof a);
    gpu_make(p, &x, m->down ? m->n * m->used : m->n, m->cols, gpu_rounded ? m->n % 2 * 4 : 1, gpu_rounded ? 4 : 2);
    gpu_make(p, &y, outs, m->rows, 3, 1);
    gpu_make(p, &ids, m->n, m->used, 2, 0);
    gpu_make(p, &weights, m->n, m->used, 1, 3);
    a.w = gpu_weight_make(p, &w, q, m->experts * m->rows, m->cols, 0);
    if (gpu_moe_halves(p, q, m)) { /* rows have different factors */
        for (t = 0; t < x.cpu.rows; t++)
            for (j = 0; j < m->cols; j++) infer__row(&x.cpu, t)[j] *= (float)(1 << t % 9);
        gpu_send(p, &x);
    }
    for (t = 0; t < m->n; t++)
        for (j = 0; j < m->used; j++) {
            int32_t id = gpu_moe_choice(m->how, t, j, m->experts);
            memcpy(infer__row(&ids.cpu, t) + j, &id, sizeof id);
            for (r = 0; r < m->rows; r++) {
                double size = gpu_dot_size(&w.w, id * m->rows + r,
                                           infer__row(&x.cpu, m->down ? t * m->used + j : t), v);
                if (m->down) sizes[t * m->rows + r] += size * fabs(infer__row(&weights.cpu, t)[j]);
                else sizes[(t * m->used + j) * m->rows + r] = size;
            }
        }
    gpu_send(p, &ids);
    a.rows = m->rows;
    a.n_used = m->used;
    a.per_expert_x = m->down;
    a.x = x.cpu;
    a.y = y.cpu;
    a.ids = ids.cpu;
    if (m->down) a.weights = weights.cpu;
    p->cpu.ops->moe_matmul(&p->cpu, &a);
    a.x = x.gpu;
    a.y = y.gpu;
    a.ids = ids.gpu;
    if (m->down) a.weights = weights.gpu;
    launches += p->gpu.launches;
    p->gpu.ops->moe_matmul(&p->gpu, &a);
    p->gpu.ops->moe_matmul(&p->gpu, &a);
    CHECK(p->gpu.launches == launches);
    gpu_moe_near(p, &y, sizes, gpu_moe_halves(p, q, m), m->cols * m->used);
    gpu_weight_drop(p, &w);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
    gpu_drop(p, &ids);
    gpu_drop(p, &weights);
    free(sizes);
    free(v);
    check_detail = "";
}

/* By tiles: the pairs by expert once, then a product each, and a sum each where there are weights. */
static uint64_t gpu_moe_launches(const gpu_moe *m) { return m->n <= INFER__GPU_FEW ? 2 : m->down ? 5 : 3; }

static void gpu_moe_open(gpu_pair *p, int device) {
    gpu_needs.rows = 160;
    gpu_needs.n_used = 4;
    gpu_needs.n_expert = 64;
    gpu_needs.sum_cols = 64;
    gpu_pair_open(p, device, INFER_KV_F32, 1, 1, 1);
    memset(&gpu_needs, 0, sizeof gpu_needs);
}

/* All types. */
static void test_gpu_ops_moe_matmul(void) {
    const infer__quant *q;
    gpu_pair p;
    int d;
    int32_t i, k;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_moe_open(&p, d);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
            int32_t cols = q->values == 1 ? 33 : q->values;
            const gpu_moe cases[] = {
                {2, 3, 2, 5, cols, 0, GPU_MOE_SPREAD},    {10, 3, 2, 5, cols, 1, GPU_MOE_SPREAD},
                {2, 3, 2, 5, cols, 1, GPU_MOE_SPREAD},    {9, 7, 3, 21, 3 * cols, 0, GPU_MOE_SPREAD},
                {1, 5, 2, 130, cols, 0, GPU_MOE_SPREAD},  {40, 8, 1, 1, 2 * cols, 0, GPU_MOE_SPREAD},
                {1, 5, 2, 130, cols, 1, GPU_MOE_SPREAD},  {40, 8, 1, 1, 2 * cols, 1, GPU_MOE_SPREAD},
                {23, 4, 3, 35, 2 * cols, 1, GPU_MOE_SOME}};
            if (!infer__gpu_has_type(q) || (gpu_small() && i % 3 == 2)) continue;
            for (k = gpu_small() ? i % 2 : 0; k < (gpu_small() ? i % 2 + 1 : (int32_t)INFER__COUNT(cases)); k++)
                gpu_moe_case(&p, q, &cases[k], gpu_moe_launches(&cases[k]));
        }
        gpu_pair_close(&p);
    }
}

/* All numbers of rows around those where forms change, and all who choose the same. */
static void test_gpu_ops_moe_rows(void) {
    static const int types[] = {0, 8};
    gpu_pair p;
    gpu_moe m;
    int d;
    int32_t n, i;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_moe_open(&p, d);
        for (n = 1; n <= 40; n += gpu_small() ? 13 : 1)
            for (i = 0; i < 8; i++) {
                const infer__quant *q = infer__quant_find(types[i / 4], NULL);
                gpu_moe few = {n, 1 + n % 9, 1 + n % 3, 1 + n % 5, 32, i % 2, i % 4}; /* more choices than experts, too */
                if (!gpu_small() || i < 4) gpu_moe_case(&p, q, &few, gpu_moe_launches(&few));
            }
        memset(&m, 0, sizeof m);
        m.rows = 33;
        m.cols = 64;
        for (i = 0; i < (gpu_small() ? 1 : 8); i++) { /* whole tiles, and more than the 64 work-items that sort */
            m.n = i % 2 ? 160 : 96;
            m.experts = 3 + 61 * (i / 4);
            m.used = 1 + 3 * (i / 2 % 2);
            m.how = i % 4;
            m.down = i % 2;
            gpu_moe_case(&p, infer__quant_find(8, NULL), &m, gpu_moe_launches(&m));
        }
        gpu_pair_close(&p);
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1); /* no room for lists: pair by pair */
        m.n = 9;
        m.experts = 4;
        for (m.down = 0; m.down < 2; m.down++) gpu_moe_case(&p, infer__quant_find(8, NULL), &m, 2);
        gpu_pair_close(&p);
    }
}

/* 1 to 8 rows, not exact: x is quantised once for both calls of a case where the type takes it so. The CPU's scalar level
 * sums the same integers. */
static void test_gpu_ops_moe_rounded(void) {
    const infer__quant *q;
    gpu_pair p;
    int d;
    int32_t i, k;
    GPU_NEED();
    gpu_rounded = 1;
    ops_most = 100; /* as for plain products: no few values should be all that counts */
    for (d = 0; d < gpu_devices(); d++) {
        gpu_moe_open(&p, d);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
            if (!infer__gpu_has_type(q) || !(gpu_has_dots(q) || q->id < 2)) continue;
            for (k = 0; k < (gpu_small() ? 2 : 16); k++) {
                int32_t unit = q->values == 1 ? 4 : q->values;
                gpu_moe m = {1 + k / 2, 4 + k % 5, 1 + k % 4, 1 + 7 * k % 40, unit * (1 + k % 7), k % 2, k % 4};
                gpu_moe_case(&p, q, &m, gpu_has_dots(q) && !(m.n == 1 && gpu_has_one(&p, q, m.cols)) ? 3 : 2);
            }
        }
        gpu_pair_close(&p);
    }
    gpu_rounded = 0;
    ops_most = 1e19f;
}

/* Gate and up with biases and an activation, then the last matrix with biases and a sum: in two launches where a kernel
 * does it all for one row, else one after the other. */
static void gpu_moe_whole(gpu_pair *p, const infer__quant *q, int32_t n, int kind) {
    enum { EXPERTS = 5, USED = 3 };
    const int32_t cols = q->values == 1 ? 72 : 3 * q->values, ff = q->values == 1 ? 40 : q->values;
    const int32_t out = n > 8 ? 64 : 37, aligned = n > 8 ? 4 : 0; /* many rows are summed up four values at once */
    const int one = n == 1 && infer__gpu_find(p->gpu.run, INFER__MODULE_ONE, q->id) != NULL;
    gpu_tensor x, up, gate, down, to, ids, weights;
    gpu_weight w[3], b[3];
    const infer__weight *m[3], *v[3];
    float *z;
    char name[100];
    int32_t t, j, g;
    snprintf(name, sizeof name, "%s, %d rows, kind %d", q->name, (int)n, kind);
    check_detail = name;
    gpu_make(p, &x, n, cols, 4, 4);
    gpu_make(p, &up, n * USED, ff, 0, 4);
    gpu_make(p, &gate, n * USED, ff, 4, 0);
    gpu_make(p, &down, n, out, 1, 0);
    gpu_make(p, &to, n, out, aligned ? 4 : 3, aligned ? 4 : 1);
    gpu_make(p, &ids, n, USED, 2, 0);
    gpu_make(p, &weights, n, USED, 1, 3);
    for (j = 0; j < 3; j++) {
        m[j] = gpu_weight_make(p, &w[j], q, EXPERTS * (j < 2 ? ff : out), j < 2 ? cols : ff, 0);
        v[j] = gpu_vector_make(p, &b[j], 0, EXPERTS * (j < 2 ? ff : out));
    }
    for (t = 0; t < n; t++)
        for (j = 0; j < USED; j++) {
            int32_t id = (t * 2 + j * 3 + 1) % EXPERTS;
            memcpy(infer__row(&ids.cpu, t) + j, &id, sizeof id);
        }
    gpu_send(p, &ids);
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p->gpu : &p->cpu;
        infer__moe_bias_args bias[3];
        infer__moe_matmul_args a[3];
        infer__act_args act;
        infer__add_args add;
        uint64_t launches = c->launches;
        memset(a, 0, sizeof a);
        memset(bias, 0, sizeof bias);
        memset(&act, 0, sizeof act);
        for (j = 0; j < 3; j++) {
            a[j].x = j < 2 ? g ? x.gpu : x.cpu : g ? up.gpu : up.cpu;
            a[j].y = j == 0 ? g ? up.gpu : up.cpu : j == 1 ? g ? gate.gpu : gate.cpu : g ? down.gpu : down.cpu;
            bias[j].ids = a[j].ids = g ? ids.gpu : ids.cpu;
            a[j].w = m[j];
            bias[j].bias = v[j];
            a[j].rows = j < 2 ? ff : out;
            bias[j].n_used = a[j].n_used = USED;
            if (j == 2) bias[j].weights = a[j].weights = g ? weights.gpu : weights.cpu;
            a[j].per_expert_x = j == 2;
            bias[j].y = a[j].y;
            a[j].bias = &bias[j];
        }
        act.x = a[1].y;
        act.up = act.y = a[0].y;
        act.kind = kind;
        if (kind == INFER__ACT_GELU_SIGMOID) {
            act.limit = 7;
            act.up_add = 1;
        }
        act.limit_after = kind == INFER__ACT_RELU;
        if (act.limit_after) act.limit = 3;
        add.x = a[2].y;
        add.y = g ? to.gpu : to.cpu;
        add.scale = 0.75f;
        a[0].gate = &a[1];
        a[0].act = &act;
        a[2].add = &add;
        if (n > 8) a[2].bias = NULL; /* it would come between the sum and what that is added to */
        infer__moe_matmul(c, &a[0]);
        if (n > 8) launches = c->launches;
        infer__moe_matmul(c, &a[2]);
        if (g && (one || (n > 8 && q->id == 0))) CHECK(c->launches == launches + 2);
    }
    for (j = 0; j < 2; j++) {
        gpu_tensor *o = j ? &to : &up;
        double error = 0, norm = 0;
        z = (float *)gpu_fetch(p, &o->on_gpu);
        for (t = 0; t < o->cpu.rows; t++)
            for (g = 0; g < o->cpu.cols; g++) {
                double y = infer__row(&o->cpu, t)[g];
                double d = z[o->cpu.offset / sizeof *z + (uint64_t)t * (uint64_t)o->cpu.stride + (uint64_t)g] - y;
                error += d * d;
                norm += y * y;
            }
        CHECK(error <= (j ? 1e-4 : 1e-10) * norm); /* what is quantised again may differ by a step */
        free(z);
    }
    for (j = 0; j < 3; j++) {
        gpu_weight_drop(p, &w[j]);
        gpu_weight_drop(p, &b[j]);
    }
    gpu_drop(p, &x);
    gpu_drop(p, &up);
    gpu_drop(p, &gate);
    gpu_drop(p, &down);
    gpu_drop(p, &to);
    gpu_drop(p, &ids);
    gpu_drop(p, &weights);
    check_detail = "";
}

static void test_gpu_ops_moe_whole(void) {
    static const int types[] = {0, 1, 2, 8, 12, 14, 39};
    static const int kinds[] = {INFER__ACT_SILU, INFER__ACT_RELU, INFER__ACT_GELU_SIGMOID};
    gpu_pair p;
    int d, i, k;
    GPU_NEED();
    gpu_rounded = 1;
    ops_most = 100;
    for (d = 0; d < gpu_devices(); d++) {
        gpu_moe_open(&p, d);
        for (i = 0; i < (int)INFER__COUNT(types); i++)
            for (k = gpu_small() ? i % 2 : 0; k < (gpu_small() ? i % 2 + 1 : 3); k++)
                gpu_moe_whole(&p, infer__quant_find(types[i], NULL), 1 + k % 2, kinds[(i + k) % 3]);
        gpu_moe_whole(&p, infer__quant_find(0, NULL), 11, INFER__ACT_SILU);
        gpu_pair_close(&p);
    }
    gpu_rounded = 0;
    ops_most = 1e19f;
}

/* As gpu_moe_open, not exact; the CPU is. */
static void gpu_moe_open_halves(gpu_pair *p, int device) {
    gpu_rounded = 1;
    ops_most = 100; /* halves have no more than 65,504 */
    gpu_moe_open(p, device);
    p->cpu.exact = 1;
}

static void gpu_moe_close_halves(gpu_pair *p) {
    gpu_pair_close(p);
    gpu_rounded = 0;
    ops_most = 1e19f;
}

/* More than 8 rows, not exact: all types that matrix units take, as halves where there are any; elsewhere Q8_0 alone. x is
 * halved once for both calls of a case. */
static void test_gpu_ops_moe_halves(void) {
    const infer__quant *q;
    gpu_pair p;
    int d;
    int32_t i, k;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_moe_open_halves(&p, d);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
            int32_t cols = q->values == 1 ? 40 : q->values;
            const int units = gpu_moe_units(&p, q), halves = units > 0;
            const gpu_moe cases[] = {
                {9, 7, 3, 21, cols, 0, GPU_MOE_SPREAD},       /* tiles of few pairs, fewer rows than a tile */
                {9, 64, 1, 130, 3 * cols, 1, GPU_MOE_SPREAD}, /* experts with one pair, experts with none */
                {75, 3, 2, 257, cols, 0, GPU_MOE_SOME},       /* a tile of 64 pairs and one of 11, no pairs, tiles of rows */
                {160, 3, 1, 128, 2 * cols, 1, GPU_MOE_LAST},  /* all pairs with one expert: tiles of 64, 64, 32 */
                {65, 1, 1, 129, 5 * cols, 0, GPU_MOE_ONE},    /* one expert: as a plain product */
                {33, 5, 4, 40, 2 * cols, 1, GPU_MOE_ONE},     /* 33 pairs: both halves of the warps */
                {31, 5, 2, 70, 4 * cols, 0, GPU_MOE_ONE}};    /* and one */
            if (!infer__gpu_has_type(q) || !(halves || (q->id == 8 && !gpu_small()))) continue;
            for (k = 0; k < (gpu_small() ? 4 : (int32_t)INFER__COUNT(cases)); k++)
                if (!gpu_small() || (q->id == 8 && d == 0) || k == (i + d) % 4) /* Q8_0 takes all shapes, others one */
                    gpu_moe_case(&p, q, &cases[k], gpu_moe_launches(&cases[k]) + (uint64_t)halves);
            if (q->id == 1) { /* F16 rows that do not begin at multiples of 16 bytes: for tensor cores x stays float */
                const gpu_moe odd = {31, 5, 2, 70, 33, 0, GPU_MOE_ONE};
                gpu_moe_case(&p, q, &odd, gpu_moe_launches(&odd) + (uint64_t)(units == 2));
            }
        }
        if (!gpu_small()) { /* no room for x as halves: x stays float */
            const gpu_moe large = {160, 4, 4, 3, 2048, 1, GPU_MOE_SPREAD};
            const uint64_t bytes = p.gpu.run->x8.bytes;
            p.gpu.run->x8.bytes = INFER__MIN(bytes, 2 << 20);
            CHECK(!gpu_moe_halves(&p, infer__quant_find(8, NULL), &large));
            gpu_moe_case(&p, infer__quant_find(8, NULL), &large, 5);
            p.gpu.run->x8.bytes = bytes;
        }
        gpu_moe_close_halves(&p);
    }
}

/* Products of several types with one x and one choice, which then change: what is made of them is kept as long as it
 * fits, and no longer. */
static void test_gpu_ops_moe_turns(void) {
    enum { N = 70, USED = 2, EXPERTS = 3, ROWS = 33, COLS = 64 };
    static const struct { int type, change; uint64_t launches, otherwise; } turns[] = { /* with matrix units, without */
        {8, 0, 3, 2},  /* halves, lists, product */
        {30, 0, 2, 1}, /* BF16 */
        {30, 0, 1, 1},
        {0, 0, 2, 1},  /* F32: lists of 32 */
        {8, 0, 3, 1},  /* and of 64 again */
        {2, 0, 1, 1},
        {8, 1, 2, 1},  /* another x */
        {8, 2, 3, 2}}; /* another choice */
    gpu_tensor x, more, y, ids;
    gpu_weight w;
    gpu_pair p;
    infer__moe_matmul_args a;
    infer__add_args add;
    double *sizes = (double *)calloc((size_t)N * USED * ROWS, sizeof *sizes);
    float *v = ops_floats(COLS);
    int d, units;
    int32_t t, j, r;
    size_t i;
    for (d = 0; d < gpu_devices(); d++) {
        gpu_moe_open_halves(&p, d);
        units = gpu_moe_units(&p, infer__quant_find(8, NULL));
        if (units != gpu_moe_units(&p, infer__quant_find(30, NULL))) { /* 7.5 has none for BF16: other launches */
            gpu_moe_close_halves(&p);
            continue;
        }
        memset(&a, 0, sizeof a);
        gpu_make(&p, &x, N, COLS, 0, 4);
        gpu_make(&p, &more, N, COLS, 0, 0);
        gpu_make(&p, &y, N * USED, ROWS, 1, 0);
        gpu_make(&p, &ids, N, USED, 0, 0);
        a.rows = ROWS;
        a.n_used = USED;
        for (i = 0; i < INFER__COUNT(turns); i++) {
            const infer__quant *q = infer__quant_find(turns[i].type, NULL);
            const gpu_moe m = {N, EXPERTS, USED, ROWS, COLS, 0, 0};
            uint64_t launches;
            a.w = gpu_weight_make(&p, &w, q, EXPERTS * ROWS, COLS, 0);
            if (turns[i].change == 1) {
                add.scale = 2;
                add.x = more.cpu;
                add.y = x.cpu;
                p.cpu.ops->add(&p.cpu, &add);
                add.x = more.gpu;
                add.y = x.gpu;
                p.gpu.ops->add(&p.gpu, &add);
            }
            for (t = 0; t < N; t++)
                for (j = 0; j < USED; j++) {
                    int32_t id = gpu_moe_choice(GPU_MOE_SPREAD, turns[i].change == 2 ? 3 * t + 1 : t, j, EXPERTS);
                    memcpy(infer__row(&ids.cpu, t) + j, &id, sizeof id);
                    for (r = 0; r < ROWS; r++)
                        sizes[(t * USED + j) * ROWS + r] =
                            gpu_dot_size(&w.w, id * ROWS + r, infer__row(&x.cpu, t), v);
                }
            if (i == 0 || turns[i].change == 2) gpu_send(&p, &ids);
            a.x = x.cpu;
            a.y = y.cpu;
            a.ids = ids.cpu;
            p.cpu.ops->moe_matmul(&p.cpu, &a);
            a.x = x.gpu;
            a.y = y.gpu;
            a.ids = ids.gpu;
            launches = p.gpu.launches + (units ? turns[i].launches : turns[i].otherwise);
            p.gpu.ops->moe_matmul(&p.gpu, &a);
            CHECK(p.gpu.launches == launches);
            gpu_moe_near(&p, &y, sizes, gpu_moe_halves(&p, q, &m), COLS);
            gpu_weight_drop(&p, &w);
        }
        gpu_drop(&p, &x);
        gpu_drop(&p, &more);
        gpu_drop(&p, &y);
        gpu_drop(&p, &ids);
        gpu_moe_close_halves(&p);
    }
    free(sizes);
    free(v);
}

/* What a row gets does not depend on the others: rows 7 .. 25 of 40 by themselves, the same bits, and one of 3; exact, and
 * as halves. */
static void test_gpu_ops_moe_alone(void) {
    enum { USED = 2, EXPERTS = 5, ROWS = 37, COLS = 64 };
    static const int32_t of_all[2] = {40, 3}, first[2] = {7, 1}, some[2] = {19, 1};
    gpu_tensor x, y, ids, weights;
    gpu_weight w;
    gpu_pair p;
    infer__moe_matmul_args a;
    float *whole, *part;
    int d, k;
    int32_t t, j;
    GPU_NEED();
    for (d = 0; d < 2 * gpu_devices(); d++) {
        if (d % 2) gpu_moe_open_halves(&p, d / 2);
        else gpu_moe_open(&p, d / 2);
        for (k = 0; k < 4; k++) {
            const int down = k % 2;
            const int32_t N = of_all[k / 2], FROM = first[k / 2], PART = some[k / 2];
            int32_t of = down ? USED : 1, outs = down ? 1 : USED;
            memset(&a, 0, sizeof a);
            gpu_make(&p, &x, N * of, COLS, 0, 0);
            gpu_make(&p, &y, N * outs, ROWS, 0, 0);
            gpu_make(&p, &ids, N, USED, 0, 0);
            gpu_make(&p, &weights, N, USED, 0, 0);
            a.w = gpu_weight_make(&p, &w, infer__quant_find(2, NULL), EXPERTS * ROWS, COLS, 0);
            for (t = 0; t < N; t++)
                for (j = 0; j < USED; j++) {
                    int32_t id = gpu_moe_choice(GPU_MOE_SPREAD, t, j, EXPERTS);
                    memcpy(infer__row(&ids.cpu, t) + j, &id, sizeof id);
                }
            gpu_send(&p, &ids);
            a.rows = ROWS;
            a.n_used = USED;
            a.per_expert_x = down;
            a.x = x.gpu;
            a.y = y.gpu;
            a.ids = ids.gpu;
            if (down) a.weights = weights.gpu;
            p.gpu.ops->moe_matmul(&p.gpu, &a);
            whole = (float *)gpu_fetch(&p, &y.on_gpu);
            a.x.offset = (uint64_t)(FROM * of * COLS) * sizeof(float);
            a.ids.offset = a.weights.offset = (uint64_t)(FROM * USED) * sizeof(float);
            a.x.rows = PART * of;
            a.y.rows = PART * outs;
            a.ids.rows = a.weights.rows = PART;
            p.gpu.ops->moe_matmul(&p.gpu, &a);
            part = (float *)gpu_fetch(&p, &y.on_gpu);
            CHECK(memcmp(part, whole + FROM * outs * ROWS, (size_t)(PART * outs * ROWS) * sizeof *part) == 0);
            free(whole);
            free(part);
            gpu_weight_drop(&p, &w);
            gpu_drop(&p, &x);
            gpu_drop(&p, &y);
            gpu_drop(&p, &ids);
            gpu_drop(&p, &weights);
        }
        if (d % 2) gpu_moe_close_halves(&p);
        else gpu_pair_close(&p);
    }
}

