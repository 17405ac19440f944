/* test_ops.c: the CPU backend: float kernels of every level against scalar, every op against a naive double version,
 * and bit-equality over threads and batches. */

/* ---- helpers -------------------------------------------------------------------------------------------------- */

static uint32_t ops_seed = 1;
static uint32_t ops_bits(void) {
    ops_seed ^= ops_seed << 13;
    ops_seed ^= ops_seed >> 17;
    ops_seed ^= ops_seed << 5;
    return ops_seed;
}
static float ops_rand(void) { return (float)(ops_bits() >> 8) / 8388608.0f - 1.0f; } /* -1 .. 1 */
static float *ops_floats(size_t n) {
    float *p = (float *)malloc((n ? n : 1) * sizeof *p);
    size_t i;
    for (i = 0; i < n; i++) p[i] = ops_rand();
    return p;
}

static infer__mem ops_mem;
static int32_t ops_index_sets; /* of infer__needs */
/* For products of so many rows. */
static void ops_prepare(infer__ctx *c, uint32_t cpu, int32_t rows, int32_t max_cols) {
    infer__needs n;
    memset(&n, 0, sizeof n);
    n.cpu = cpu;
    n.rows = rows;
    n.cols = max_cols;
    n.index_sets = ops_index_sets;
    CHECK(c->ops->prepare(c, &n));
}
static void ops_open(infer__ctx *c, int threads, uint32_t cpu, int32_t max_cols) {
    infer_error err;
    memset(c, 0, sizeof *c);
    infer__mem_init(&ops_mem, NULL, 0);
    c->mem = &ops_mem;
    c->ops = &infer__cpu_ops;
    infer__cpu_select(c, cpu);
    c->exact = 1; /* the definition; test_int8.c and test_float.c compare the other products with it */
    CHECK(infer__pool_create(&c->pool, c->mem, threads, NULL, NULL, NULL, &err) == INFER_OK);
    ops_prepare(c, cpu, 64, max_cols);
}
static void ops_close(infer__ctx *c) {
    CHECK(infer__ok(c));
    c->ops->finish(c);
    infer__pool_destroy(c->pool);
    CHECK(infer__atomic_get(&ops_mem.used) == 0);
}

/* A tensor over the caller's memory. */
static infer__tensor ops_tensor(infer__buf *b, float *p, int32_t rows, int32_t cols, int32_t stride) {
    infer__tensor t;
    memset(b, 0, sizeof *b);
    b->host = p;
    b->bytes = (uint64_t)rows * (uint64_t)stride * sizeof *p;
    memset(&t, 0, sizeof t);
    t.buf = b;
    t.rows = rows;
    t.cols = cols;
    t.stride = stride;
    return t;
}
static infer__weight ops_weight(const infer__quant *q, const void *data, int32_t rows, int32_t cols) {
    infer__weight w;
    memset(&w, 0, sizeof w);
    w.type = q;
    w.data = data;
    w.rows = rows;
    w.cols = cols;
    w.row_bytes = (uint64_t)(cols / q->values) * (uint64_t)q->bytes;
    w.name = "test";
    return w;
}
static const infer__quant *ops_f32(void) { return infer__quant_find(0, NULL); }

static float ops_most = 1e19f; /* no number of a block is larger */
/* Blocks of a type: encoded random values, or random bytes that decode to numbers of at most ops_most. offset: bytes before the
 * first block, which makes it unaligned. Free the result minus offset. */
static uint8_t *ops_blocks(const infer__quant *q, int64_t n, int offset) {
    uint8_t *base = (uint8_t *)malloc((size_t)(n / q->values * q->bytes) + (size_t)offset), *p = base + offset;
    float *v = ops_floats((size_t)q->values);
    int64_t b;
    int i, bad;
    for (b = 0; b < n / q->values; b++, p += q->bytes) {
        do {
            bad = 0;
            if (q->encode) {
                for (i = 0; i < q->values; i++) v[i] = ops_rand();
                q->encode(v, p, q->values);
            } else {
                for (i = 0; i < q->bytes; i++) p[i] = (uint8_t)(ops_bits() >> 11);
            }
            q->decode(p, v, q->values);
            for (i = 0; i < q->values; i++) bad |= !infer__finite(v[i]) || fabsf(v[i]) > ops_most;
        } while (bad);
    }
    free(v);
    return base + offset;
}

/* |a - b| <= tol * size + tiny */
static int ops_near(double a, double b, double size, double tol) { return fabs(a - b) <= tol * size + 1e-30; }

/* ---- levels and kernels --------------------------------------------------------------------------------------- */

static void test_ops_levels(void) {
    uint32_t found = infer__cpu_found(), need = 0, env;
    const char *name = getenv("INFER_CPU_LEVEL");
    int32_t l;
    CHECK(infer__cpu_mask(INFER_CPU_BEST) == found);
    CHECK(infer__cpu_mask(INFER_CPU_SCALAR) == 0);
    CHECK(infer__cpu_level_name(0, NULL) == NULL && infer__cpu_level_name(99, NULL) == NULL);
    CHECK(infer__cpu_level_name(-1, NULL) == NULL);
    for (l = INFER_CPU_SCALAR; l <= INFER_CPU_AMXINT8; l++) {
        CHECK(infer__cpu_level_name(l, &need) != NULL);
        CHECK(infer__cpu_mask(l) == (found & need));
        CHECK((infer__kernels_find(need)->need & ~need) == 0);
        env = need;
        if (name && strcmp(name, infer__cpu_level_name(l, NULL)) == 0) CHECK((found & ~env) == 0);
    }
    CHECK(!(infer__cpu_mask(INFER_CPU_AVX512BF16) & INFER__CPU_AMX));
    CHECK_STR(infer__cpu_level_name(INFER_CPU_AVX512VNNI, &need), "avx512vnni");
    CHECK(!(need & INFER__CPU_AVXVNNI) && (need & INFER__CPU_AVX512) && (need & INFER__CPU_AVX2));
    CHECK_STR(infer__kernels_find(0)->name, "scalar");
#if defined(INFER__SIMD_AVX512)
    CHECK_STR(infer__kernels_find(INFER__CPU_AVX2)->name, "avx2");
    CHECK_STR(infer__kernels_find(INFER__CPU_AVX2 | INFER__CPU_AVXVNNI)->name, "avx2");
    CHECK_STR(infer__kernels_find(INFER__CPU_AVX2 | INFER__CPU_AVX512)->name, "avx512");
#endif
}

static const int ops_sizes[] = {1,  2,  3,  4,  5,  7,  8,  9,  11, 13, 15, 16, 17, 18, 23, 24, 31,  32,  33,  35, 40,
                                45, 47, 48, 49, 50, 55, 57, 60, 63, 64, 65, 66, 67, 68, 69, 70, 127, 128, 255, 1000};

static void ops_kernels_at(const infer__kernels *k, const infer__kernels *ref, int n) {
    float *w = ops_floats((size_t)n), *x = ops_floats((size_t)n * 7), y[7], z[7], *p, *q;
    double size = 0, d = 0, sq = 0, sum = 0;
    int i, j;
    for (i = 0; i < n; i++) {
        size += fabs((double)w[i] * x[i]);
        d += (double)w[i] * x[i];
        sum += x[i];
        sq += ((double)x[i] - 0.25) * ((double)x[i] - 0.25);
    }
    for (j = 1; j <= 7; j++) {
        for (i = 0; i < 7; i++) y[i] = z[i] = -7;
        k->dot(w, x, n, j, n, y);
        ref->dot(w, x, n, j, n, z);
        CHECK(ops_near(y[0], d, size, 1e-6));
        for (i = 0; i < 7; i++) {
            float one = -7;
            if (i < j) k->dot(w, x + (size_t)i * (size_t)n, n, 1, n, &one);
            CHECK(infer__f32_bits(y[i]) == infer__f32_bits(one)); /* n rows are n times one row, bit by bit */
            CHECK(fabsf(y[i] - z[i]) <= 1e-6f * (float)n);
        }
    }
    CHECK(ops_near(k->sum(x, n), sum, n, 1e-6));
    CHECK(ops_near(k->sum_sq_diff(x, 0.25f, n), sq, sq, 1e-6));
    p = ops_floats((size_t)n + 1);
    q = (float *)malloc(((size_t)n + 1) * sizeof *q);
    memcpy(q, p, ((size_t)n + 1) * sizeof *q);
    k->axpy(p, x, 0.3f, n);
    ref->axpy(q, x, 0.3f, n);
    for (i = 0; i <= n; i++) CHECK(fabsf(p[i] - q[i]) <= 1e-6f);
    CHECK(infer__f32_bits(p[n]) == infer__f32_bits(q[n])); /* nothing is written past the end */
    memcpy(q, p, ((size_t)n + 1) * sizeof *q);
    k->scale(p, 1.7f, n);
    for (i = 0; i < n; i++) CHECK(fabsf(p[i] - q[i] * 1.7f) <= 1e-6f);
    CHECK(p[n] == q[n]);
    free(w);
    free(x);
    free(p);
    free(q);
}

static void ops_kernels_tile(const infer__kernels *k, int n_w, int n_x, int n) {
    float *w = ops_floats((size_t)n_w * (size_t)(n + 3)), *x = ops_floats((size_t)n_x * (size_t)(n + 1));
    float *y = ops_floats((size_t)n_x * (size_t)(n_w + 2)), one;
    int i, j;
    k->tile(w, n + 3, n_w, x, n + 1, n_x, n, y, n_w + 2);
    for (j = 0; j < n_x; j++) {
        for (i = 0; i < n_w; i++) {
            k->dot(w + (size_t)i * (size_t)(n + 3), x + (size_t)j * (size_t)(n + 1), 0, 1, n, &one);
            CHECK(infer__f32_bits(y[j * (n_w + 2) + i]) == infer__f32_bits(one));
        }
    }
    free(w);
    free(x);
    free(y);
}

static void test_ops_kernels(void) {
    const infer__kernels *ref = infer__kernels_find(0);
    size_t r, s;
    int a, b;
    for (r = 0; r < INFER__COUNT(infer__kernel_rows); r++) {
        const infer__kernels *k = &infer__kernel_rows[r];
        if (k->need & ~infer__cpu_found()) continue;
        check_detail = k->name;
        for (s = 0; s < INFER__COUNT(ops_sizes); s++) ops_kernels_at(k, ref, ops_sizes[s]);
        for (a = 1; a <= 9; a++)
            for (b = 1; b <= 9; b++) ops_kernels_tile(k, a, b, 1 + (a * 37 + b * 11) % 70);
    }
}

/* ---- matmul --------------------------------------------------------------------------------------------------- */

static void ops_matmul_type(infer__ctx *c, const infer__quant *q, int32_t rows, int32_t cols, int32_t n) {
    uint8_t *blocks = ops_blocks(q, (int64_t)rows * cols, rows & 1);
    infer__weight w = ops_weight(q, blocks, rows, cols);
    float *x = ops_floats((size_t)n * (size_t)cols), *y = ops_floats((size_t)n * (size_t)rows);
    float *v = (float *)malloc((size_t)cols * sizeof *v);
    infer__matmul_args a;
    infer__buf bx, by;
    int32_t r, i, j;
    memset(&a, 0, sizeof a);
    a.n_w = 1;
    a.w[0] = &w;
    a.x = ops_tensor(&bx, x, n, cols, cols);
    a.y[0] = ops_tensor(&by, y, n, rows, rows);
    c->ops->matmul(c, &a);
    for (r = 0; r < rows; r++) {
        q->decode(blocks + (uint64_t)r * w.row_bytes, v, cols);
        for (j = 0; j < n; j++) {
            double d = 0, size = 0;
            for (i = 0; i < cols; i++) {
                d += (double)v[i] * x[j * cols + i];
                size += fabs((double)v[i] * x[j * cols + i]);
            }
            CHECK(ops_near(y[j * rows + r], d, size, 1e-6));
        }
    }
    free(blocks - (rows & 1));
    free(x);
    free(y);
    free(v);
}

static void test_ops_matmul_types(void) {
    static const int32_t batch[] = {1, 2, 3, 5, 17, 64};
    const infer__quant *q;
    infer__ctx c;
    int32_t i;
    size_t b;
    ops_open(&c, 2, infer__cpu_found(), 768);
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
        if (!q->decode) continue;
        check_detail = q->name;
        c.exact = q->unpack || q->id == 30; /* those round activations by default: test_int8.c, test_float.c */
        for (b = 0; b < INFER__COUNT(batch); b++)
            ops_matmul_type(&c, q, batch[b] == 64 ? 6 : 13 + (int32_t)b,
                            q->values * (q->values == 1    ? 77
                                         : q->values > 128 ? 2
                                                           : 3),
                            batch[b]);
    }
    ops_close(&c);
}

/* Three weights of two types with biases, strided tensors. */
static void ops_matmul_three(infer__ctx *c, const infer__weight *w, const infer__weight *b, float *x, int32_t n,
                             int32_t cols, float *y) {
    infer__matmul_args a;
    infer__buf bx, by[3];
    int32_t j, at = 0;
    memset(&a, 0, sizeof a);
    a.n_w = 3;
    a.x = ops_tensor(&bx, x, n, cols, cols + 5);
    for (j = 0; j < 3; j++) {
        a.w[j] = &w[j];
        a.b[j] = b[j].type ? &b[j] : NULL;
        a.y[j] = ops_tensor(&by[j], y + at, n, w[j].rows, 1000); /* side by side in rows of 1000 */
        at += w[j].rows;
    }
    c->ops->matmul(c, &a);
}

static void test_ops_matmul_threads(void) {
    static const int threads[] = {1, 2, 3, 8};
    static const int32_t rows[3] = {301, 64, 7};
    enum { COLS = 320, N = 19 };
    float *x = ops_floats(N * (COLS + 5)), *y = ops_floats(N * 1000), *z = ops_floats(N * 1000);
    float *bias = ops_floats(301);
    uint16_t half[64];
    uint8_t *data[3];
    infer__weight w[3], b[3];
    infer__ctx c;
    int32_t i, j, r;
    size_t t;
    memset(b, 0, sizeof b);
    for (i = 0; i < 64; i++) half[i] = infer__f32_f16(ops_rand());
    for (j = 0; j < 3; j++) {
        const infer__quant *q = infer__quant_find(j == 1 ? 2 : j == 2 ? 1 : 0, NULL); /* F32, Q4_0, F16 */
        data[j] = ops_blocks(q, (int64_t)rows[j] * COLS, 0);
        w[j] = ops_weight(q, data[j], rows[j], COLS);
    }
    b[0] = ops_weight(ops_f32(), bias, 1, 301);
    b[1] = ops_weight(infer__quant_find(1, NULL), half, 1, 64);
    for (t = 0; t < INFER__COUNT(threads); t++) {
        memset(t ? z : y, 0, N * 1000 * sizeof *y);
        ops_open(&c, threads[t], infer__cpu_found(), COLS);
        ops_matmul_three(&c, w, b, x, N, COLS, t ? z : y);
        if (t) CHECK(memcmp(y, z, N * 1000 * sizeof *y) == 0);
        for (r = 0; t && r < N; r++) { /* each row alone */
            memset(z, 0, 1000 * sizeof *z);
            ops_matmul_three(&c, w, b, x + r * (COLS + 5), 1, COLS, z);
            CHECK(memcmp(y + r * 1000, z, 1000 * sizeof *z) == 0);
        }
        ops_close(&c);
    }
    ops_open(&c, 1, 0, COLS); /* without bias: y differs by it */
    memset(z, 0, N * 1000 * sizeof *z);
    ops_matmul_three(&c, w, b, x, N, COLS, z);
    for (i = 0; i < N * 1000; i++) CHECK(ops_near(y[i], z[i], 20, 1e-6));
    memset(b, 0, sizeof b);
    ops_matmul_three(&c, w, b, x, N, COLS, z);
    for (r = 0; r < N; r++) {
        for (i = 0; i < 301; i++) CHECK(ops_near(y[r * 1000 + i], (double)z[r * 1000 + i] + bias[i], 20, 1e-6));
        for (i = 0; i < 64; i++)
            CHECK(ops_near(y[r * 1000 + 301 + i], (double)z[r * 1000 + 301 + i] + infer__f16_f32(half[i]), 20, 1e-6));
        for (i = 372; i < 1000; i++) CHECK(y[r * 1000 + i] == 0.0f);
    }
    b[0] = ops_weight(infer__quant_find(2, NULL), data[1], 1, 320);
    b[0].name = "blk.0.bias";
    ops_matmul_three(&c, w, b, x, N, COLS, z);
    CHECK(c.error.code == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(c.error.message, "blk.0.bias");
    infer__error_clear(&c.error);
    ops_close(&c);
    for (j = 0; j < 3; j++) free(data[j]);
    free(x);
    free(y);
    free(z);
    free(bias);
}

/* ---- the other ops -------------------------------------------------------------------------------------------- */

static void test_ops_embed(void) {
    enum { N = 7, COLS = 96, VOCAB = 11 };
    const infer__quant *q = infer__quant_find(8, NULL); /* Q8_0 */
    uint8_t *blocks = ops_blocks(q, VOCAB * COLS, 1);
    float *places = ops_floats(20 * COLS), *y = ops_floats(N * COLS), *z = ops_floats(N * COLS), v[COLS];
    int32_t ids[N] = {3, 10, -1, 0, 3, 5, 7}, pos[N] = {0, 19, 4, 5, 5, 6, 1}, i, j, out[2] = {1, 6};
    infer__weight w = ops_weight(q, blocks, VOCAB, COLS), p = ops_weight(ops_f32(), places, 20, COLS);
    infer__embed_args a;
    infer__get_rows_args g;
    infer__buf by, bz;
    infer__ctx c;
    memset(&a, 0, sizeof a);
    ops_open(&c, 2, infer__cpu_found(), COLS);
    memcpy(z, y, N * COLS * sizeof *y);
    c.pass.ids = ids;
    c.pass.pos = pos;
    c.pass.out = out;
    a.y = ops_tensor(&by, y, N, COLS, COLS);
    a.table = &w;
    a.positions = &p;
    a.scale = 1.5f;
    c.ops->embed(&c, &a);
    for (i = 0; i < N; i++) {
        if (ids[i] >= 0) q->decode(blocks + (uint64_t)ids[i] * w.row_bytes, v, COLS);
        for (j = 0; j < COLS; j++) {
            double want = (ids[i] >= 0 ? v[j] * 1.5 : z[i * COLS + j]) + places[pos[i] * COLS + j];
            CHECK(ops_near(y[i * COLS + j], want, 2, 1e-6));
        }
    }
    g.x = a.y;
    g.y = ops_tensor(&bz, z, 2, COLS, COLS);
    c.ops->get_rows(&c, &g);
    CHECK(memcmp(z, y + COLS, COLS * sizeof *z) == 0 && memcmp(z + COLS, y + 6 * COLS, COLS * sizeof *z) == 0);
    ids[4] = VOCAB;
    c.ops->embed(&c, &a);
    CHECK(c.error.code == INFER_ERR_ARGUMENT);
    infer__error_clear(&c.error);
    ops_close(&c);
    free(blocks - 1);
    free(places);
    free(y);
    free(z);
}

static void ops_norm_case(int kind, int32_t groups, int per_group, int half, int in_place) {
    enum { N = 5, COLS = 6 * 37 };
    float *x = ops_floats(N * COLS), *y = in_place ? x : ops_floats(N * COLS), *was = ops_floats(N * COLS);
    float *w = ops_floats(COLS), *b = ops_floats(COLS);
    uint16_t w16[COLS];
    int32_t n = COLS / groups, len = per_group ? COLS : n, r, g, i;
    infer__weight ww, wb;
    infer__norm_args a;
    infer__buf bx, by;
    infer__ctx c;
    for (i = 0; i < COLS; i++) w16[i] = infer__f32_f16(w[i]);
    for (i = 0; half && i < COLS; i++) w[i] = infer__f16_f32(w16[i]);
    for (i = 0; i < N * COLS; i++) was[i] = x[i] = x[i] * 3 + 0.5f;
    ww = ops_weight(infer__quant_find(half ? 1 : 0, NULL), half ? (void *)w16 : (void *)w, 1, len);
    wb = ops_weight(ops_f32(), b, 1, len);
    memset(&a, 0, sizeof a);
    a.x = ops_tensor(&bx, x, N, COLS, COLS);
    a.y = ops_tensor(&by, y, N, COLS, COLS);
    a.weight = &ww;
    a.bias = kind == INFER__NORM_LAYER ? &wb : NULL;
    a.kind = kind;
    a.n_groups = groups;
    a.eps = 1e-5f;
    ops_open(&c, 2, infer__cpu_found(), COLS);
    c.ops->norm(&c, &a);
    for (r = 0; r < N; r++) {
        for (g = 0; g < groups; g++) {
            const float *v = was + r * COLS + g * n;
            double mean = 0, var = 0;
            for (i = 0; i < n; i++) mean += v[i];
            mean = kind == INFER__NORM_LAYER ? mean / n : 0;
            for (i = 0; i < n; i++) var += (v[i] - mean) * (v[i] - mean);
            for (i = 0; i < n; i++) {
                int32_t at = per_group ? g * n + i : i;
                double want = (v[i] - mean) / sqrt(var / n + 1e-5) * w[at] + (a.bias ? b[at] : 0);
                CHECK(ops_near(y[r * COLS + g * n + i], want, 4, 1e-6));
            }
        }
    }
    ops_close(&c);
    if (!in_place) free(y);
    free(x);
    free(was);
    free(w);
    free(b);
}

static void test_ops_norm(void) {
    int i;
    for (i = 0; i < 16; i++)
        ops_norm_case(i & 1 ? INFER__NORM_LAYER : INFER__NORM_RMS, i & 2 ? 6 : 1, i & 4, i & 8, i & 1);
}

static void test_ops_rope(void) {
    enum { N = 4, HEADS = 3, DIM = 20, ROT = 16 };
    float *x = ops_floats(N * HEADS * DIM), *was = ops_floats(N * HEADS * DIM), freq[ROT];
    int32_t pos[N] = {0, 1, 100, 131071}, seq[N] = {0, 1, 0, 1}, extended[2] = {0, 1}, kind, r, h, i;
    infer__rope_args a;
    infer__buf bx, bf;
    infer__ctx c;
    for (i = 0; i < ROT; i++) freq[i] = (float)pow(10000.0, -2.0 * (i % 8) / ROT) * (i < 8 ? 1.0f : 0.25f);
    ops_open(&c, 2, infer__cpu_found(), HEADS * DIM);
    c.pass.pos = pos;
    c.pass.seq = seq;
    c.pass.extended = extended;
    memset(&a, 0, sizeof a);
    memset(&bf, 0, sizeof bf);
    bf.host = freq;
    bf.bytes = sizeof freq;
    a.n_head = HEADS;
    a.dim = DIM;
    a.n_rot = ROT;
    a.freq = &bf;
    a.scale = 1.25f;
    for (kind = INFER__ROPE_NONE; kind <= INFER__ROPE_HALVES; kind++) {
        memcpy(was, x, N * HEADS * DIM * sizeof *x);
        a.x = ops_tensor(&bx, x, N, HEADS * DIM, HEADS * DIM);
        a.kind = kind;
        c.ops->rope(&c, &a);
        if (kind == INFER__ROPE_NONE) CHECK(memcmp(was, x, N * HEADS * DIM * sizeof *x) == 0);
        for (r = 0; r < N && kind != INFER__ROPE_NONE; r++) {
            for (h = 0; h < HEADS; h++) {
                const float *v = was + (r * HEADS + h) * DIM, *y = x + (r * HEADS + h) * DIM;
                for (i = 0; i < ROT / 2; i++) {
                    int32_t p = kind == INFER__ROPE_PAIRS ? 2 * i : i,
                            q = kind == INFER__ROPE_PAIRS ? 2 * i + 1 : i + ROT / 2;
                    double t = (double)pos[r] * freq[i + (seq[r] ? ROT / 2 : 0)];
                    CHECK(ops_near(y[p], 1.25 * (v[p] * cos(t) - v[q] * sin(t)), 4, 1e-6));
                    CHECK(ops_near(y[q], 1.25 * (v[p] * sin(t) + v[q] * cos(t)), 4, 1e-6));
                }
                for (i = ROT; i < DIM; i++) CHECK(y[i] == v[i]);
            }
        }
    }
    ops_close(&c);
    free(x);
    free(was);
}

/* Pairs that rotate by other positions than the row's own, and two that have none of their own. */
static void test_ops_rope_axes(void) {
    enum { N = 3, ROT = 12 };
    static const uint8_t axes[ROT / 2] = { 0, 1, 2, 2, 3, 0 };
    int32_t pos[N] = { 5, 6, 900 }, at[2][N] = { { 3, 70, 1 }, { 0, 11, 4 } }, seq[N] = { 0, 0, 0 }, extended[1] = { 0 }, r, i;
    float *x = ops_floats(N * ROT), was[N * ROT], freq[ROT];
    infer__rope_args a;
    infer__buf bx, bf;
    infer__ctx c;
    for (i = 0; i < ROT; i++) freq[i] = 0.01f + 0.3f * (float)(i % 6);
    ops_open(&c, 2, infer__cpu_found(), ROT);
    c.pass.pos = pos;
    c.pass.seq = seq;
    c.pass.extended = extended;
    c.pass.axis[1] = at[0];
    c.pass.axis[2] = at[1];
    memset(&a, 0, sizeof a);
    memset(&bf, 0, sizeof bf);
    bf.host = freq;
    bf.bytes = sizeof freq;
    a.n_head = 1;
    a.dim = a.n_rot = ROT;
    a.freq = &bf;
    a.axes = axes;
    a.scale = 1;
    a.kind = INFER__ROPE_HALVES;
    memcpy(was, x, sizeof was);
    a.x = ops_tensor(&bx, x, N, ROT, ROT);
    c.ops->rope(&c, &a);
    for (r = 0; r < N; r++)
        for (i = 0; i < ROT / 2; i++) {
            int32_t k = axes[i], where = k == 1 || k == 2 ? at[k - 1][r] : pos[r];
            double t = (double)where * freq[i], u = was[r * ROT + i], v = was[r * ROT + i + ROT / 2];
            CHECK(ops_near(x[r * ROT + i], u * cos(t) - v * sin(t), 4, 1e-6));
            CHECK(ops_near(x[r * ROT + i + ROT / 2], u * sin(t) + v * cos(t), 4, 1e-6));
        }
    ops_close(&c);
    free(x);
}

static double ops_act_naive(double x, int kind) {
    switch (kind) {
    case INFER__ACT_SILU: return x / (1 + exp(-x));
    case INFER__ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case INFER__ACT_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    case INFER__ACT_RELU: return x > 0 ? x : 0;
    case INFER__ACT_SIGMOID: return 1 / (1 + exp(-x));
    case INFER__ACT_TANH: return tanh(x);
    case INFER__ACT_SOFTPLUS: return x > 30 ? x : log1p(exp(x));
    case INFER__ACT_GELU_SIGMOID: return x / (1 + exp(-1.702 * x));
    default: return x > 0 ? x * x : 0;
    }
}

static void test_ops_elementwise(void) {
    enum { N = 3, COLS = 5001 };
    float *x = ops_floats(N * COLS), *up = ops_floats(N * COLS), *y = ops_floats(N * COLS), *was = ops_floats(N * COLS);
    float *div = ops_floats(COLS);
    infer__weight wd = ops_weight(ops_f32(), div, 1, COLS);
    infer__act_args a;
    infer__add_args add;
    infer__map_args map = { .range = NULL };
    infer__buf bx, bu, by;
    infer__ctx c;
    int32_t i, kind, with;
    for (i = 0; i < COLS; i++) div[i] = 1.5f + div[i];
    for (i = 0; i < N * COLS; i++) x[i] *= 12;
    x[0] = -200; /* exp overflows */
    x[1] = 200;
    ops_open(&c, 2, infer__cpu_found(), COLS);
    memset(&a, 0, sizeof a);
    for (kind = INFER__ACT_SILU; kind < INFER__ACTS; kind++) {
        for (with = 0; with < 3; with++) { /* alone; times up into up; divided, in place */
            memcpy(was, up, N * COLS * sizeof *up);
            memcpy(y, with == 2 ? x : up, N * COLS * sizeof *y);
            memset(&a, 0, sizeof a);
            a.x = ops_tensor(&bx, with == 2 ? y : x, N, COLS, COLS);
            a.y = ops_tensor(&by, y, N, COLS, COLS);
            if (with == 1) a.up = ops_tensor(&bu, y, N, COLS, COLS);
            if (with == 2) a.divide = &wd;
            a.kind = kind;
            c.ops->act(&c, &a);
            for (i = 0; i < N * COLS; i++) {
                double want = ops_act_naive(x[i], kind) * (with == 1 ? was[i] : 1) / (with == 2 ? div[i % COLS] : 1);
                CHECK(ops_near(y[i], want, 4 + fabs(want), 1e-6));
            }
        }
    }
    memcpy(was, y, N * COLS * sizeof *y);
    add.x = ops_tensor(&bx, x, N, COLS, COLS);
    add.y = ops_tensor(&by, y, N, COLS, COLS);
    add.scale = 0.3f;
    c.ops->add(&c, &add);
    for (i = 0; i < N * COLS; i++) CHECK(ops_near(y[i], was[i] + 0.3 * x[i], 100 + fabs(was[i]), 1e-6));
    for (with = 0; with < 4; with++) {
        memcpy(was, x, N * COLS * sizeof *x);
        memcpy(y, x, N * COLS * sizeof *x);
        map.x = ops_tensor(&by, y, N, COLS, COLS);
        map.scale = 0.7f;
        map.cap = with & 1 ? 3.0f : 0.0f;
        map.clamp = with & 2 ? 2.0f : 0.0f;
        c.ops->map(&c, &map);
        for (i = 0; i < N * COLS; i++) {
            double want = was[i] * 0.7;
            if (with & 1) want = 3 * tanh(want / 3);
            if (with & 2) want = want > 2 ? 2 : want < -2 ? -2 : want;
            CHECK(ops_near(y[i], want, fabs(want) + 1, 1e-6));
        }
    }
    ops_close(&c);
    free(x);
    free(up);
    free(y);
    free(was);
    free(div);
}

/* xIELU beside doubles, also where exp(x) - 1 - x cancels. */
static void test_ops_xielu(void) {
    enum { N = 3, COLS = 1201 };
    static const float p[4] = { 0.7f, 1.3f, 0.5f, -1e-6f };
    float *x = ops_floats(N * COLS), *up = ops_floats(N * COLS), *y = ops_floats(N * COLS);
    infer__act_args a;
    infer__buf bx, bu, by;
    infer__ctx c;
    int32_t i, with;
    for (i = 0; i < N * COLS; i++) x[i] *= i % 3 == 0 ? 1e-4f : i % 3 == 1 ? 0.6f : 9.0f;
    ops_open(&c, 2, infer__cpu_found(), COLS);
    for (with = 0; with < 2; with++) {
        memset(&a, 0, sizeof a);
        a.x = ops_tensor(&bx, x, N, COLS, COLS);
        a.y = ops_tensor(&by, y, N, COLS, COLS);
        if (with) a.up = ops_tensor(&bu, up, N, COLS, COLS);
        a.kind = INFER__ACT_XIELU;
        memcpy(a.xielu, p, sizeof p);
        c.ops->act(&c, &a);
        for (i = 0; i < N * COLS; i++) {
            double v = x[i], low = v < p[3] ? v : p[3], factor = with ? up[i] : 1;
            double want = (v > 0 ? p[0] * v * v : p[1] * (expm1(low) - v)) + p[2] * v;
            CHECK(ops_near(y[i], want * factor, fabs(v * factor) * (1 + fabs(v)) + 1e-6, 1e-6));
        }
    }
    ops_close(&c);
    free(x);
    free(up);
    free(y);
}

/* ---- errors, cancelling, profile ------------------------------------------------------------------------------ */

static void test_ops_errors(void) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    infer__atomic cancel;
    infer__add_args add;
    infer__buf bx, by, b;
    infer_allocator counting = {NULL, check_alloc, check_free};
    infer__needs need;
    infer__ctx c;
    ops_open(&c, 1, infer__cpu_found(), 64);
    add.x = ops_tensor(&bx, x, 1, 8, 8);
    add.y = ops_tensor(&by, y, 1, 8, 8);
    add.scale = 1;
    infer__fail(&c, INFER_ERR_STATE, "first %d", 1);
    infer__fail(&c, INFER_ERR_MEMORY, "second");
    CHECK(c.error.code == INFER_ERR_STATE);
    CHECK_STR(c.error.message, "first 1");
    c.ops->add(&c, &add);
    c.ops->upload(&c, &by, 0, x, sizeof x);
    CHECK(y[0] == 0 && y[7] == 0); /* sticky: later ops do nothing */
    infer__error_clear(&c.error);
    memset(&cancel, 0, sizeof cancel);
    c.cancel = &cancel;
    c.profiling = 1;
    c.ops->add(&c, &add);
    CHECK(infer__ok(&c) && y[7] == 8);
    infer__atomic_set(&cancel, 1);
    c.ops->add(&c, &add);
    CHECK(c.error.code == INFER_CANCELLED && y[7] == 8);
    infer__atomic_set(&cancel, 0);
    c.ops->add(&c, &add);
    CHECK(y[7] == 8); /* still cancelled: the error stays until the caller clears it */
    infer__error_clear(&c.error);
    c.ops->add(&c, &add);
    CHECK_STR(c.profile[0].op, "add");
    CHECK(c.profile[0].calls == 2 && c.profile[0].seconds >= 0 && c.profile[1].op == NULL);
    CHECK(c.ops->alloc(&c, &b, 64));
    c.ops->upload(&c, &b, 8, x, sizeof x);
    c.ops->copy_bytes(&c, &b, 0, &b, 8, sizeof x);
    memset(y, 0, sizeof y);
    c.ops->download(&c, &b, 4, y, 7 * sizeof *y);
    CHECK(y[0] == 2 && y[6] == 8 && y[7] == 0);
    c.ops->release(&c, &b);
    c.ops->release(&c, &b);
    ops_close(&c);

    memset(&c, 0, sizeof c);
    infer__mem_init(&ops_mem, &counting, 0);
    c.mem = &ops_mem;
    check_allocs = check_live = 0;
    check_fail_at = 1;
    memset(&need, 0, sizeof need);
    need.cols = 64;
    CHECK(!infer__cpu_ops.prepare(&c, &need));
    check_fail_at = 2;
    CHECK(!infer__cpu_ops.alloc(&c, &b, 64) && b.host == NULL);
    check_fail_at = 0;
    infer__cpu_ops.release(&c, &b);
    infer__cpu_ops.finish(&c);
    CHECK(check_live == 0);
}

static void suite_ops(void) {
    RUN(test_ops_levels);
    RUN(test_ops_kernels);
    RUN(test_ops_matmul_types);
    RUN(test_ops_matmul_threads);
    RUN(test_ops_embed);
    RUN(test_ops_norm);
    RUN(test_ops_rope);
    RUN(test_ops_rope_axes);
    RUN(test_ops_elementwise);
    RUN(test_ops_xielu);
    RUN(test_ops_errors);
}
