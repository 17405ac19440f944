/* test_ops_moe.c: the CPU's ops of experts: routers, products of chosen experts and their biases, activations that are made
 * for them, each beside a naive version in double. Comes after test_ops.c, whose helpers it uses. */
static void test_ops_moe_route(void) {
    enum { N = 3, E = 6, USED = 3 };
    float x[N * E] = {1, 2, 3, 3, 0, -1, /* ties: 2 before 3 */ 5, 5, 5, 5, 5, 5, -1, 90, 7, 89, 2, 1}, w[N * USED],
                f[N * USED];
    static const int32_t want[N * USED] = {2, 3, 1, 0, 1, 2, 1, 3, 2};
    infer__moe_route_args a;
    infer__router router;
    infer__buf bx, bi, bw;
    infer__ctx c;
    int32_t r, j, i, id, normalise;
    ops_open(&c, 1, infer__cpu_found(), 64);
    memset(&router, 0, sizeof router);
    memset(&a, 0, sizeof a);
    a.router = &router;
    for (normalise = 0; normalise < 2; normalise++) {
        a.x = ops_tensor(&bx, x, N, E, E);
        a.ids = ops_tensor(&bi, f, N, USED, USED);
        a.weights = ops_tensor(&bw, w, N, USED, USED);
        router.n_expert = E;
        router.n_used = USED;
        router.normalise = normalise;
        router.scale = 2;
        c.ops->moe_route(&c, &a);
        for (r = 0; r < N; r++) {
            double sum = 0, used = 0;
            for (i = 0; i < E; i++) sum += exp((double)x[r * E + i] - 90);
            for (j = 0; j < USED; j++) used += exp((double)x[r * E + want[r * USED + j]] - 90);
            for (j = 0; j < USED; j++) {
                memcpy(&id, &f[r * USED + j], sizeof id);
                CHECK(id == want[r * USED + j]);
                CHECK(
                    ops_near(w[r * USED + j], 2 * exp((double)x[r * E + id] - 90) / (normalise ? used : sum), 1, 1e-6));
            }
        }
    }
    ops_close(&c);
}

/* Every score, with a bias, groups and a floor, against sorting in double. */
static void test_ops_moe_route_kinds(void) {
    enum { N = 5, MOST = 24, USED = 4 };
    static const struct { int8_t score, bias, groups, group_used, best, normalise; float floor; } cases[] = {
        { INFER__SCORE_SOFTMAX, 1, 0, 0, 0, 0, 0 },     { INFER__SCORE_SIGMOID, 0, 0, 0, 0, 1, 1e-20f },
        { INFER__SCORE_SIGMOID, 1, 0, 0, 0, 1, 2.5f },  { INFER__SCORE_SQRT_SOFTPLUS, 1, 0, 0, 0, 1, 0 },
        { INFER__SCORE_SIGMOID, 1, 6, 2, 2, 1, 0 },     { INFER__SCORE_SOFTMAX, 0, 4, 1, 1, 0, 0 },
        { INFER__SCORE_SOFTMAX, 1, 24, 5, 2, 1, 0 },    { INFER__SCORE_SQRT_SOFTPLUS, 0, 3, 2, 2, 0, 0 } };
    float *x = ops_floats(N * MOST), *b = ops_floats(MOST), w[N * USED], f[N * USED];
    infer__weight wb = ops_weight(ops_f32(), b, 1, MOST);
    infer__moe_route_args a;
    infer__router r;
    infer__buf bx, bi, bw;
    infer__ctx c;
    size_t k;
    int32_t row, i, j, g, id;
    ops_open(&c, 1, infer__cpu_found(), 64);
    for (i = 0; i < N * MOST; i++) x[i] *= 4;
    for (k = 0; k < sizeof cases / sizeof *cases; k++) {
        memset(&r, 0, sizeof r);
        memset(&a, 0, sizeof a);
        r.n_expert = MOST;
        r.n_used = USED;
        r.score = cases[k].score;
        r.n_group = cases[k].groups;
        r.group_used = cases[k].group_used;
        r.group_best = cases[k].best;
        r.normalise = cases[k].normalise;
        r.floor = cases[k].floor;
        r.scale = 1.5f;
        a.router = &r;
        a.bias = cases[k].bias ? &wb : NULL;
        a.x = ops_tensor(&bx, x, N, MOST, MOST);
        a.ids = ops_tensor(&bi, f, N, USED, USED);
        a.weights = ops_tensor(&bw, w, N, USED, USED);
        c.ops->moe_route(&c, &a);
        for (row = 0; row < N; row++) {
            double score[MOST], value[MOST], group[MOST], sum = 0, used = 0;
            int32_t each = r.n_group ? MOST / r.n_group : MOST, want[USED];
            for (i = 0; i < MOST; i++) sum += exp((double)x[row * MOST + i]);
            for (i = 0; i < MOST; i++) {
                double v = x[row * MOST + i];
                score[i] = r.score == INFER__SCORE_SOFTMAX   ? exp(v) / sum
                           : r.score == INFER__SCORE_SIGMOID ? 1 / (1 + exp(-v))
                                                             : sqrt(log(1 + exp(v)));
                value[i] = score[i] + (a.bias ? b[i] : 0);
            }
            for (g = 0; g < r.n_group; g++) {
                double best = -1e9, next = each > 1 ? -1e9 : 0;
                for (i = g * each; i < (g + 1) * each; i++) {
                    if (value[i] > best) { if (each > 1) next = best; best = value[i]; }
                    else if (value[i] > next && each > 1) next = value[i];
                }
                group[g] = best + (r.group_best > 1 ? next : 0);
            }
            for (j = 0; r.n_group && j < r.n_group - r.group_used; j++) { /* the worst groups go */
                int32_t worst = -1;
                for (g = 0; g < r.n_group; g++)
                    if (group[g] < 1e8 && (worst < 0 || group[g] < group[worst])) worst = g;
                group[worst] = 1e9;
                for (i = worst * each; i < (worst + 1) * each; i++) value[i] = -1e9;
            }
            for (j = 0; j < USED; j++) {
                want[j] = 0;
                for (i = 1; i < MOST; i++)
                    if (value[i] > value[want[j]]) want[j] = i;
                value[want[j]] = -1e9;
                used += score[want[j]];
            }
            if (used < r.floor) used = r.floor;
            for (j = 0; j < USED; j++) {
                memcpy(&id, &f[row * USED + j], sizeof id);
                CHECK(id == want[j]);
                CHECK(ops_near(w[row * USED + j], 1.5 * score[want[j]] / (r.normalise ? used : 1), 3, 1e-6));
            }
        }
    }
    ops_close(&c);
    free(x);
    free(b);
}

/* SparseMixer: sorting, and what lies within 2% of the largest, in double. */
static void test_ops_moe_route_sparsemixer(void) {
    enum { N = 64, MOST = 11, USED = 3 };
    float *x = ops_floats(N * MOST), w[N * USED], f[N * USED];
    infer__moe_route_args a;
    infer__router r;
    infer__buf bx, bi, bw;
    infer__ctx c;
    int32_t row, i, j, id, shared = 0;
    ops_open(&c, 1, infer__cpu_found(), 64);
    memset(&r, 0, sizeof r);
    memset(&a, 0, sizeof a);
    r.n_expert = MOST;
    r.n_used = USED;
    r.score = INFER__SCORE_SPARSEMIXER;
    r.scale = 1;
    for (i = 0; i < N * MOST; i++) x[i] = x[i] * 0.2f + (float)(i / MOST % 3 - 1); /* around -1, 0, 1 */
    x[2 * MOST + 5] = (float)NAN;
    a.router = &r;
    a.x = ops_tensor(&bx, x, N, MOST, MOST);
    a.ids = ops_tensor(&bi, f, N, USED, USED);
    a.weights = ops_tensor(&bw, w, N, USED, USED);
    c.ops->moe_route(&c, &a);
    for (row = 0; row < N; row++) {
        const float *v = x + row * MOST;
        int taken[MOST] = { 0 };
        for (j = 0; j < USED; j++) {
            double sum = 0;
            int32_t best = -1;
            memcpy(&id, &f[row * USED + j], sizeof id);
            if (row == 2) {
                CHECK(w[row * USED + j] != w[row * USED + j] && id >= 0 && id < MOST);
                continue;
            }
            for (i = 0; i < MOST; i++)
                if (!taken[i] && (best < 0 || v[i] > v[best])) best = i;
            for (i = 0; i < MOST; i++) {
                double size = fabs(v[i]) > v[best] ? fabs(v[i]) : v[best];
                if (taken[i] || (v[best] - v[i]) / size > 0.02) continue;
                sum += exp((double)v[i] - v[best]);
                shared += i != best;
            }
            taken[best] = 1;
            CHECK(id == best);
            CHECK(ops_near(w[row * USED + j], 1 / sum, 1, 1e-6));
        }
    }
    CHECK(shared > 20);
    ops_close(&c);
    free(x);
}

/* Biases of experts: of pairs, and summed by weight. */
static void test_ops_moe_bias(void) {
    enum { N = 3, USED = 2, E = 5, COLS = 2500 };
    float *y = ops_floats(N * USED * COLS), *was = (float *)malloc(N * USED * COLS * sizeof *was);
    float *b = ops_floats(E * COLS), ids[N * USED], weights[N * USED];
    infer__weight wb = ops_weight(ops_f32(), b, 1, E * COLS);
    infer__moe_bias_args a;
    infer__buf by, bi, bw;
    infer__ctx c;
    int32_t sum, i, j, t, id;
    ops_open(&c, 2, infer__cpu_found(), 64);
    for (i = 0; i < N * USED; i++) {
        id = (i * 3 + 1) % E;
        memcpy(&ids[i], &id, sizeof id);
        weights[i] = 0.25f * (float)(i + 1);
    }
    for (sum = 0; sum < 2; sum++) {
        memcpy(was, y, N * USED * COLS * sizeof *y);
        memset(&a, 0, sizeof a);
        a.y = ops_tensor(&by, y, sum ? N : N * USED, COLS, COLS);
        a.ids = ops_tensor(&bi, ids, N, USED, USED);
        if (sum) a.weights = ops_tensor(&bw, weights, N, USED, USED);
        a.bias = &wb;
        a.n_used = USED;
        c.ops->moe_bias(&c, &a);
        for (t = 0; t < a.y.rows; t++)
            for (i = 0; i < COLS; i++) {
                double want = was[t * COLS + i];
                for (j = 0; j < (sum ? USED : 1); j++) {
                    int32_t pair = sum ? t * USED + j : t;
                    want += (sum ? weights[pair] : 1) * b[(pair * 3 + 1) % E * COLS + i];
                }
                CHECK(ops_near(y[t * COLS + i], want, 4, 1e-6));
            }
    }
    ops_close(&c);
    free(y);
    free(was);
    free(b);
}

/* A gate that is cut, with 1 added to what it multiplies (gpt-oss), and one gate for several columns. */
static void test_ops_act_made(void) {
    enum { N = 3, COLS = 1030, HEADS = 5 };
    float *x = ops_floats(N * COLS), *up = ops_floats(N * COLS), *y = ops_floats(N * COLS);
    infer__act_args a;
    infer__buf bx, bu, by;
    infer__ctx c;
    int32_t i;
    ops_open(&c, 2, infer__cpu_found(), COLS);
    for (i = 0; i < N * COLS; i++) {
        x[i] *= 12;
        up[i] *= 12;
    }
    x[5] = infer__bits_f32(0x7fc00000u); /* stays, and alone */
    up[7] = infer__bits_f32(0x7fc00000u);
    memset(&a, 0, sizeof a);
    a.x = ops_tensor(&bx, x, N, COLS, COLS);
    a.up = ops_tensor(&bu, up, N, COLS, COLS);
    a.y = ops_tensor(&by, y, N, COLS, COLS);
    a.kind = INFER__ACT_GELU_SIGMOID;
    a.limit = 7;
    a.up_add = 1;
    c.ops->act(&c, &a);
    for (i = 0; i < N * COLS; i++) {
        double gate = x[i] > 7 ? 7 : x[i], with = up[i] > 7 ? 7 : up[i] < -7 ? -7 : up[i];
        if (i == 5 || i == 7) CHECK(!infer__finite(y[i]));
        else CHECK(ops_near(y[i], gate / (1 + exp(-1.702 * gate)) * (with + 1), 60, 1e-6));
    }
    memset(&a, 0, sizeof a);
    x[5] = up[7] = 0.5f;
    a.x = ops_tensor(&bx, x, N, HEADS, COLS);
    a.up = a.y = ops_tensor(&by, up, N, COLS, COLS);
    a.kind = INFER__ACT_SIGMOID;
    memcpy(y, up, N * COLS * sizeof *y);
    c.ops->act(&c, &a);
    for (i = 0; i < N * COLS; i++) {
        double gate = x[i / COLS * COLS + i % COLS / (COLS / HEADS)];
        CHECK(ops_near(up[i], y[i] / (1 + exp(-gate)), 12, 1e-6));
    }
    ops_close(&c);
    free(x);
    free(up);
    free(y);
}

static void ops_moe(infer__ctx *c, const infer__weight *w, float *x, float *ids, float *weights, float *y, int32_t n,
                    int32_t rows, int32_t used, int32_t cols) {
    infer__moe_matmul_args a;
    infer__buf bx, by, bi, bw;
    memset(&a, 0, sizeof a);
    a.per_expert_x = weights != NULL;
    a.x = ops_tensor(&bx, x, weights ? n * used : n, cols, cols);
    a.y = ops_tensor(&by, y, weights ? n : n * used, rows, rows);
    a.ids = ops_tensor(&bi, ids, n, used, used);
    if (weights) a.weights = ops_tensor(&bw, weights, n, used, used);
    a.w = w;
    a.rows = rows;
    a.n_used = used;
    c->ops->moe_matmul(c, &a);
}

static uint32_t ops_moe_encodes; /* INFER__CPU_ENCODES: float weights may go through tiles or integers of 16 bits */

/* Prepared for experts' rows of x, which are more than a matmul's. */
static void ops_moe_open(infer__ctx *c, int threads, const infer__weight *w, size_t pairs, int32_t experts,
                         int32_t max_cols, int exact) {
    infer__needs need;
    ops_open(c, threads, infer__cpu_found() | ops_moe_encodes, max_cols);
    c->ops->finish(c);
    memset(&need, 0, sizeof need);
    need.cpu = infer__cpu_found() | ops_moe_encodes;
    need.rows = (int32_t)pairs;
    need.cols = max_cols;
    infer__need_experts(&need, w, experts, 1, 1);
    CHECK(c->ops->prepare(c, &need));
    c->exact = exact;
}

static void ops_moe_case(int32_t n, int32_t experts, int32_t used, int32_t rows, int32_t cols, int type, int down,
                         int32_t max_cols, int exact) {
    const infer__quant *q = infer__quant_find(type, NULL);
    uint8_t *blocks = ops_blocks(q, (int64_t)experts * rows * cols, 0);
    infer__weight w = ops_weight(q, blocks, experts * rows, cols);
    size_t pairs = (size_t)(n * used), outs = down ? (size_t)n : pairs;
    float *x = ops_floats((down ? pairs : (size_t)n) * (size_t)cols), *weights = ops_floats(pairs),
          *ids = ops_floats(pairs);
    float *y = ops_floats(outs * (size_t)rows), *z = ops_floats(outs * (size_t)rows), *v = ops_floats((size_t)cols);
    double *want = (double *)calloc(outs * (size_t)rows, sizeof *want);
    infer__ctx c;
    int32_t t, j, r, i, id;
    for (t = 0; t < n; t++)
        for (j = 0; j < used; j++) {
            id = (int32_t)((uint32_t)(t * 7 + j * 3) % (uint32_t)experts);
            memcpy(&ids[t * used + j], &id, sizeof id);
            for (r = 0; r < rows; r++) {
                double d = 0;
                q->decode(blocks + (uint64_t)(id * rows + r) * w.row_bytes, v, cols);
                for (i = 0; i < cols; i++) d += (double)v[i] * x[(down ? t * used + j : t) * cols + i];
                if (down) want[t * rows + r] += d * weights[t * used + j];
                else want[(t * used + j) * rows + r] = d;
            }
        }
    ops_moe_open(&c, 3, &w, pairs, experts, max_cols, exact);
    ops_moe(&c, &w, x, ids, down ? weights : NULL, y, n, rows, used, cols);
    for (i = 0; i < (int32_t)outs * rows; i++)
        CHECK(ops_near(y[i], want[i], 20, exact || (type < 2 && !ops_moe_encodes) ? 1e-6 : type < 2 ? 5e-4 : 1e-2));
    ops_close(&c);
    ops_moe_open(&c, 1, &w, pairs, experts, max_cols, exact);
    for (t = 0; t < n; t++) /* each token alone, on one thread */
        ops_moe(&c, &w, x + (size_t)(down ? t * used : t) * (size_t)cols, ids + t * used,
                down ? weights + t * used : NULL, z + (size_t)(down ? t : t * used) * (size_t)rows, 1, rows, used,
                cols);
    CHECK(memcmp(y, z, outs * (size_t)rows * sizeof *y) == 0);
    ops_close(&c);
    free(blocks);
    free(x);
    free(weights);
    free(ids);
    free(y);
    free(z);
    free(v);
    free(want);
}

static void test_ops_moe_matmul(void) {
    int down, exact;
    for (exact = 0; exact < 2; exact++)
        for (down = 0; down < 2; down++) {
            ops_moe_case(9, 7, 3, 21, 64, 2, down, 64, exact);
            ops_moe_case(1, 5, 2, 130, 32, 0, down, 64, exact);
            ops_moe_case(40, 8, 2, 33, 96, 8, down, 96, exact);
            ops_moe_case(3000, 4, 4, 5, 32, 8, down, 32, exact); /* more pairs than fit on the scratch at once */
            ops_moe_case(50, 4, 2, 100, 288, 2, down, 288, exact);
            ops_moe_case(90, 3, 2, 70, 75, 1, down, 96, exact);       /* many columns, rows of x that end early */
            ops_moe_case(9, 5, 2, 37, 1030, 30, down, 1030, exact);   /* few and more than a cut */
            ops_moe_case(2000, 2, 2, 33, 44, 30, down, 64, exact);    /* more columns than fit on the scratch */
        }
    ops_moe_encodes = INFER__CPU_ENCODES;
    for (down = 0; down < 2; down++) {
        ops_moe_case(90, 3, 2, 70, 75, 1, down, 96, 0);
        ops_moe_case(9, 5, 2, 37, 1030, 1, down, 1030, 0);
        ops_moe_case(2000, 2, 2, 33, 44, 1, down, 64, 0);
        ops_moe_case(50, 3, 2, 100, 288, 30, down, 288, 0);
    }
    ops_moe_encodes = 0;
}

static void suite_ops_moe(void) {
    RUN(test_ops_moe_route);
    RUN(test_ops_moe_route_kinds);
    RUN(test_ops_moe_route_sparsemixer);
    RUN(test_ops_moe_bias);
    RUN(test_ops_act_made);
    RUN(test_ops_moe_matmul);
}
