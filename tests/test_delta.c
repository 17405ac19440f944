/* test_delta.c: the op of gated delta nets beside a plain version in double, at every level, for any threads and any cut of the
 * rows; hostile sizes of a model with such layers. Uses helpers of test_ops.c and test_hostile_keys.c. */

enum { DELTA_N = 37, DELTA_MOST = 40, DELTA_WIDE = 128 };
typedef struct delta_shape { int32_t heads, k_heads, dim, state, tiled, fused, kind; float bound; } delta_shape;
static const delta_shape delta_shapes[] = {
    { 1, 1, 1, 1, 0, 0, 0, 0 },   { 4, 2, 16, 8, 1, 0, 0, 0 },   { 4, 2, 16, 8, 0, 1, 0, 0 },
    { 3, 3, 17, 13, 0, 0, 0, 0 }, { 6, 2, 33, 40, 1, 1, 0, 0 },  { 2, 1, 128, 128, 0, 0, 0, 0 },
    { 1, 1, 1, 1, 0, 0, INFER__DELTA_KEYS, 0 },     { 3, 3, 17, 13, 0, 0, INFER__DELTA_KEYS, -5 },
    { 2, 2, 128, 128, 0, 0, INFER__DELTA_KEYS, 0 }, { 4, 2, 16, 8, 0, 0, INFER__DELTA_KEYS, -0.5f },
    { 1, 1, 1, 1, 0, 0, INFER__DELTA_PLAIN, 0 },    { 3, 3, 13, 13, 0, 0, INFER__DELTA_PLAIN, 0 },
    { 2, 2, 40, 40, 0, 0, INFER__DELTA_PLAIN, 0 } };

/* Rows [from, to) of sequence 0 into y, from cell `in` to cell `out`. */
static void delta_rows(infer__ctx *c, infer__delta_args *a, int32_t from, int32_t to, int32_t in, int32_t out) {
    static int32_t seq[DELTA_N];
    infer__delta_args part = *a;
    infer__tensor *t[6];
    int i;
    t[0] = &part.q; t[1] = &part.k; t[2] = &part.v; t[3] = &part.alpha; t[4] = &part.beta; t[5] = &part.y;
    for (i = 0; i < 6; i++) {
        t[i]->offset += (uint64_t)from * (uint64_t)t[i]->stride * sizeof(float);
        t[i]->rows = to - from;
    }
    c->pass.n_rows = to - from;
    c->pass.n_seq = 1;
    c->pass.seq = seq;
    c->pass.cell_in = &in;
    c->pass.cell_out = &out;
    c->ops->delta(c, &part);
    CHECK(infer__ok(c));
}

static void delta_naive(const delta_shape *d, const float *q, const float *k, const float *v, const float *al, const float *be, const float *ab,
                        double *y) {
    const int32_t each = d->heads / d->k_heads;
    int32_t h, t, i, n;
    for (h = 0; h < d->heads; h++) {
        double *s = (double *)calloc((size_t)d->state * (size_t)d->dim, sizeof *s);
        const int32_t g = d->tiled ? h % d->k_heads : h / each;
        for (t = 0; t < DELTA_N; t++) {
            const float *kt = k + (t * d->k_heads + g) * d->state, *qt = q + (t * d->k_heads + g) * d->state;
            const float *vt = v + (t * d->heads + h) * d->dim;
            double keep[DELTA_WIDE], beta, kk = 1e-6, qq = 1e-6;
            beta = 1 / (1 + exp(-(double)be[t * d->heads + h]));
            for (n = 0; n < d->state; n++) { kk += (double)kt[n] * kt[n]; qq += (double)qt[n] * qt[n]; }
            qq *= d->state;
            if (d->kind == INFER__DELTA_PLAIN) kk = qq = 1;
            for (n = 0; n < d->state; n++) {
                const int32_t at = d->kind == INFER__DELTA_KEYS ? h * d->state + n : h, all = d->kind == INFER__DELTA_KEYS ? d->state : 1;
                const double x = (double)al[t * d->heads * all + at] + ab[d->heads + at];
                keep[n] = d->kind == INFER__DELTA_PLAIN ? ab[h] : d->bound != 0 ? d->bound / (1 + exp(-ab[h] * x)) : ab[h] * log(1 + exp(x));
                keep[n] = exp(keep[n]);
            }
            for (i = 0; i < d->dim; i++) {
                double was = 0, u, sum = 0;
                for (n = 0; n < d->state; n++) was += keep[n] * s[n * d->dim + i] * kt[n] / sqrt(kk);
                u = d->kind == INFER__DELTA_PLAIN ? vt[i] : beta * (vt[i] - was);
                for (n = 0; n < d->state; n++) {
                    s[n * d->dim + i] = keep[n] * s[n * d->dim + i] + kt[n] / sqrt(kk) * u;
                    sum += s[n * d->dim + i] * qt[n] / sqrt(qq);
                }
                y[(t * d->heads + h) * d->dim + i] = sum;
            }
        }
        free(s);
    }
}

static void test_delta_op(void) {
    size_t k;
    for (k = 0; k < sizeof delta_shapes / sizeof *delta_shapes; k++) {
        const delta_shape *d = &delta_shapes[k];
        const int32_t keys = d->k_heads * d->state, values = d->heads * d->dim, each = d->heads / d->k_heads;
        const size_t cell = (size_t)d->heads * (size_t)d->state * (size_t)infer__ssm_lanes(d->dim, 0);
        float *q = ops_floats(DELTA_N * keys), *key = ops_floats(DELTA_N * keys), *v = ops_floats(DELTA_N * values);
        const int32_t rates = d->kind == INFER__DELTA_KEYS ? d->heads * d->state : d->heads, step = 3 * d->dim;
        float *al = ops_floats(DELTA_N * rates), *be = ops_floats(DELTA_N * d->heads), *ab = ops_floats(d->heads + rates);
        float *mixed = ops_floats(DELTA_N * d->heads * step); /* [head][q, k, v] */
        float *both = ops_floats(2 * DELTA_N * d->heads), *y = ops_floats(DELTA_N * values), *first = ops_floats(DELTA_N * values);
        float *cells = ops_floats((int32_t)(3 * cell));
        double *want = (double *)calloc((size_t)(DELTA_N * values), sizeof *want);
        infer__weight wa, wb;
        infer__delta_args a;
        infer__buf bq, bk, bv, bal, bbe, by, bc;
        int32_t i, t, way;
        for (i = 0; i < d->heads; i++) ab[i] = -(float)fabs(ab[i]) * 2;
        delta_naive(d, q, key, v, al, be, ab, want);
        wa = ops_weight(ops_f32(), ab, 1, d->heads);
        wb = ops_weight(ops_f32(), ab + d->heads, 1, rates);
        for (t = 0; t < DELTA_N * d->heads && d->kind == INFER__DELTA_PLAIN; t++) {
            memcpy(mixed + t * step, q + t * d->dim, (size_t)d->dim * sizeof *q);
            memcpy(mixed + t * step + d->dim, key + t * d->dim, (size_t)d->dim * sizeof *q);
            memcpy(mixed + t * step + 2 * d->dim, v + t * d->dim, (size_t)d->dim * sizeof *q);
        }
        for (t = 0; t < DELTA_N; t++) /* of a key head: beta of its heads, then alpha */
            for (i = 0; i < d->heads; i++) {
                both[2 * t * d->heads + i / each * 2 * each + i % each] = be[t * d->heads + i];
                both[2 * t * d->heads + i / each * 2 * each + each + i % each] = al[t * d->heads + i];
            }
        for (way = 0; way < 4; way++) { /* the CPU's own level, scalar; three threads; rows cut in pieces */
            infer__ctx c;
            ops_open(&c, way == 2 ? 3 : 1, way == 1 ? 0 : infer__cpu_found(), 4 * INFER__LANES * DELTA_MOST * 4);
            memset(&a, 0, sizeof a);
            a.q = ops_tensor(&bq, q, DELTA_N, keys, keys);
            a.k = ops_tensor(&bk, key, DELTA_N, keys, keys);
            a.v = ops_tensor(&bv, v, DELTA_N, values, values);
            a.y = ops_tensor(&by, y, DELTA_N, values, values);
            if (d->fused) {
                a.beta = ops_tensor(&bbe, both, DELTA_N, 2 * d->heads, 2 * d->heads);
                a.alpha = ops_tensor(&bal, both + each, DELTA_N, 2 * d->heads - each, 2 * d->heads);
                a.run = each;
                a.run_step = 2 * each;
            } else {
                a.beta = ops_tensor(&bbe, be, DELTA_N, d->heads, d->heads);
                a.alpha = ops_tensor(&bal, al, DELTA_N, rates, rates);
                a.run = a.run_step = d->heads;
            }
            a.a = &wa;
            a.dt_bias = &wb;
            memset(&bc, 0, sizeof bc);
            bc.host = cells;
            bc.bytes = 3 * cell * sizeof(float);
            a.cells = &bc;
            a.heads = d->heads;
            a.k_heads = d->k_heads;
            a.dim = d->dim;
            a.state = d->state;
            a.tiled = d->tiled;
            a.kind = d->kind;
            a.bound = d->bound;
            if (d->kind == INFER__DELTA_PLAIN) {
                const int32_t cols = d->heads * step;
                a.step = step;
                a.q = ops_tensor(&bq, mixed, DELTA_N, cols, cols);
                a.k = infer__columns(&a.q, d->dim, cols - d->dim);
                a.v = infer__columns(&a.q, 2 * d->dim, cols - 2 * d->dim);
            }
            a.eps = 1e-6f;
            memset(y, 0, (size_t)(DELTA_N * values) * sizeof *y);
            if (way == 3) {
                delta_rows(&c, &a, 0, 1, -1, 0);
                delta_rows(&c, &a, 1, 20, 0, 1);
                delta_rows(&c, &a, 20, DELTA_N, 1, 2);
            } else delta_rows(&c, &a, 0, DELTA_N, -1, 0);
            for (i = 0; i < DELTA_N * values; i++) CHECK(ops_near(y[i], want[i], 1, 2e-5));
            if (way == 0) memcpy(first, y, (size_t)(DELTA_N * values) * sizeof *y);
            if (way > 1) CHECK(memcmp(first, y, (size_t)(DELTA_N * values) * sizeof *y) == 0);
            ops_close(&c);
        }
        free(q); free(key); free(v); free(al); free(be); free(ab); free(both); free(y); free(first); free(cells); free(want); free(mixed);
    }
}

/* Sizes of the file that do not fit: an error that names the key or the tensor. */
typedef struct delta_case { const char *key; int64_t value; const char *says; } delta_case;
static void delta_hostile(const char *path, const char *arch, const delta_case *cases, size_t count) {
    size_t n = 0, size, i;
    char *data = path ? check_read(path, &n) : NULL, *file;
    for (i = 0; data && i < count; i++) {
        infer_model *m = NULL;
        infer_model_info info;
        infer_error e;
        gguf_writer w;
        char key[96];
        gw_init(&w);
        snprintf(key, sizeof key, "%s.%s", arch, cases[i].key);
        check_detail = key;
        if (strstr(key, "lower_bound")) gw_f32(&w, key, (float)cases[i].value);
        else gw_int(&w, key, GW_U32, cases[i].value);
        file = keys_file(data, n, &w, key, &size);
        CHECK(file && infer_model_open_memory(&m, file, size, NULL, &e) == INFER_OK);
        if (m) {
            CHECK(infer_model_get_info(m, &info) == INFER_OK && !info.computes);
            CHECK_HAS(infer_model_why_not(m), cases[i].says);
        }
        infer_model_close(m);
        free(file);
    }
    CHECK(data != NULL);
    free(data);
}

static void test_delta_hostile(void) {
    static const delta_case cases[] = {
        { "ssm.conv_kernel", 0, "ssm.conv_kernel" },       { "ssm.conv_kernel", 1, "ssm.conv_kernel" },
        { "ssm.conv_kernel", 65, "ssm.conv_kernel" },      { "ssm.conv_kernel", 3, "ssm_conv1d" },
        { "ssm.inner_size", 0, "ssm.inner_size" },         { "ssm.inner_size", 255, "ssm.time_step_rank" },
        { "ssm.inner_size", 512, "attn_qkv" },             { "ssm.inner_size", 0x7fffffff, "ssm.inner_size" },
        { "ssm.state_size", 0, "ssm.state_size" },         { "ssm.state_size", 257, "ssm.state_size" },
        { "ssm.state_size", 64, "attn_qkv" },              { "ssm.time_step_rank", 0, "ssm.time_step_rank" },
        { "ssm.time_step_rank", 3, "ssm.time_step_rank" }, { "ssm.time_step_rank", 4, "ssm_" },
        { "ssm.group_count", 0, "ssm.group_count" },       { "ssm.group_count", 3, "ssm.group_count" },
        { "ssm.group_count", 65537, "ssm.group_count" },   { "ssm.group_count", 1, "attn_qkv" },
        { "full_attention_interval", 0, "full_attention_interval" }, { "attention.recurrent_layers", 2, "attention.recurrent_layers" } };
    delta_hostile(check_data("archs/qwen35-dense.gguf"), "qwen35", cases, sizeof cases / sizeof *cases);
}

/* The same of Kimi delta attention and of lightning attention. */
static void test_delta_hostile_kinds(void) {
    static const delta_case kda[] = {
        { "ssm.conv_kernel", 1, "ssm.conv_kernel" },  { "ssm.conv_kernel", 3, "ssm_conv1d_q" },
        { "kda.head_dim", 0, "kda.head_dim" },        { "kda.head_dim", 257, "kda.head_dim" },
        { "kda.head_dim", 8, "ssm_" },                { "kda.gate_lower_bound", 0, "kda.gate_lower_bound" },
        { "kda.gate_lower_bound", 5, "kda.gate_lower_bound" }, { "kda.safe_gate", 2, "kda.safe_gate" },
        { "attention.head_count", 65536, "kda.head_dim" },     { "attention.head_count", 2, "attn_" } };
    static const delta_case lightning[] = {
        { "attention.key_length", 257, "attention.key_length" }, { "attention.key_length", 8, "attention.key_length" },
        { "attention.value_length", 0, "attention.value_length" }, { "attention.head_count", 0, "attention.head_count" },
        { "attention.head_count", 65536, "attn_qkv" }, { "attention.head_count", 2, "attn_qkv" },
        { "full_attention_interval", 0, "full_attention_interval" }, { "attention.recurrent_layers", 2, "attention.recurrent_layers" } };
    const char *path = check_data_or_reference("archs/bailingmoe3-moe.gguf", NULL);
    if (!path) SKIP("needs INFER_TEST_DATA");
    delta_hostile(path, "bailingmoe3", kda, sizeof kda / sizeof *kda);
    path = check_data_or_reference("archs/minimax-01-moe.gguf", NULL);
    if (path) delta_hostile(path, "minimax-01", lightning, sizeof lightning / sizeof *lightning);
}

static void suite_delta(void) {
    RUN(test_delta_op);
    RUN(test_delta_hostile);
    RUN(test_delta_hostile_kinds);
}
