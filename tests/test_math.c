/* test_math.c: the CPU's exp, tanh, normal distribution and activations against the C library in double, the kernels
 * made of them at every level against scalar, and angles that are kept for a pass against angles of every op. */

/* |a - b| <= tol * |b|, or both tiny. */
static int math_near(double a, double b, double tol) { return fabs(a - b) <= tol * fabs(b) + 1e-37; }

static void test_math_values(void) {
    volatile float inf = infer__bits_f32(0x7f800000u), nan = infer__bits_f32(0x7fc00000u); /* no folding: fast-math */
    static const float huge[] = {87.8f, 88.0f, 100.0f, 1e4f, 1e10f, 1e30f, 3.4e38f};
    double x;
    size_t i;
    for (x = -87; x <= 87; x += 0.0031) {
        float f = (float)x;
        double d = f;
        CHECK(math_near(infer__exp_minus_f32(f), exp(-fabs(d)), 1.2e-7));
        CHECK(math_near(infer__sigmoid(f), 1 / (1 + exp(-d)), 2.4e-7));
        CHECK(math_near(infer__tanh_f32(f), tanh(d), 2e-7));
        CHECK(math_near(infer__tanh_f32(f * 0.01f), tanh((double)(f * 0.01f)), 2e-7));
        if (fabs(x) < 5) CHECK(math_near(infer__normal_below(f), 0.5 * erfc(-d / sqrt(2.0)), 1.2e-6));
        else CHECK(fabs(infer__normal_below(f) - 0.5 * erfc(-d / sqrt(2.0))) < 1e-12 + (x > 0) * 1.2e-7);
    }
    for (i = 0; i < INFER__COUNT(huge); i++) { /* nothing overflows or comes back */
        CHECK(infer__exp_minus_f32(huge[i]) == 0 && infer__exp_minus_f32(-huge[i]) == 0);
        CHECK(infer__sigmoid(huge[i]) == 1 && infer__sigmoid(-huge[i]) == 0);
        CHECK(infer__tanh_f32(huge[i]) == 1 && infer__tanh_f32(-huge[i]) == -1);
        CHECK(infer__normal_below(huge[i]) == 1 && infer__normal_below(-huge[i]) == 0);
        CHECK(infer__gelu_tanh(huge[i]) == huge[i] && infer__gelu_tanh(-huge[i]) == 0);
    }
    CHECK(infer__sigmoid(inf) == 1 && infer__sigmoid(-inf) == 0 && infer__tanh_f32(-inf) == -1 && infer__tanh_f32(inf) == 1);
    CHECK(infer__sigmoid(0) == 0.5f && infer__tanh_f32(0) == 0 && infer__exp_minus_f32(0) == 1);
    for (i = 0; i < 4; i++) { /* through memory: clang's -ffast-math knows what an operation cannot give */
        volatile float y = i == 0   ? nan * infer__sigmoid(nan)
                           : i == 1 ? infer__gelu_tanh(nan)
                           : i == 2 ? infer__tanh_f32(nan)
                                    : infer__relu(nan);
        CHECK(!infer__finite(y));
    }
    CHECK(infer__relu(inf) == inf);
    CHECK(infer__relu(-inf) == 0 && infer__relu(-1e-30f) == 0 && infer__relu(1e-30f) == 1e-30f);
}

/* Activations of n values: alone, times up into up, at an odd address; nothing is written past the end. */
static void math_act_at(const infer__kernels *k, const infer__kernels *ref, int kind, int n) {
    float *x = ops_floats((size_t)n + 1), *up = ops_floats((size_t)n + 1), *y = ops_floats((size_t)n + 2);
    float *z = ops_floats((size_t)n + 2), last = y[n];
    int i;
    for (i = 0; i <= n; i++) x[i] *= 9;
    k->act(y, x, NULL, kind, n);
    ref->act(z, x, NULL, kind, n);
    CHECK(y[n] == last);
    for (i = 0; i < n; i++) {
        double want = ops_act_naive(x[i], kind);
        CHECK(fabs(y[i] - z[i]) <= 1e-6 * fabs(z[i]) + 1e-9); /* far out exp enlarges what its argument was rounded */
        CHECK(fabs(y[i] - want) <= 3e-7 * fabs((double)x[i]) + 2e-7 * fabs(want));
        if (kind == INFER__ACT_SIGMOID || kind == INFER__ACT_TANH) CHECK(math_near(y[i], want, 2.4e-7)); /* no product that enlarges errors */
    }
    memcpy(z, up, ((size_t)n + 1) * sizeof *z);
    k->act(z, x, z, kind, n);
    CHECK(z[n] == up[n]);
    for (i = 0; i < n; i++) CHECK(math_near(z[i], (double)y[i] * up[i], 1e-6));
    k->act(z, x + 1, NULL, kind, n); /* a value's bits do not depend on where it lies */
    for (i = 0; i + 1 < n; i++) CHECK(infer__f32_bits(z[i]) == infer__f32_bits(y[i + 1]));
    up[n / 2] = infer__bits_f32(0x7fc00000u); /* NaN stays NaN, and alone */
    k->act(z, up, NULL, kind, n);
    for (i = 0; i < n; i++) CHECK(infer__finite(z[i]) == (i != n / 2));
    free(x);
    free(up);
    free(y);
    free(z);
}

static void math_rows_at(const infer__kernels *k, const infer__kernels *ref, int n) {
    float *x = ops_floats((size_t)n * 2), *w = ops_floats((size_t)n * 2), *y = ops_floats((size_t)n * 2 + 1);
    float *z = (float *)malloc(((size_t)n * 2 + 1) * sizeof *z), *b = ops_floats((size_t)n);
    int i, kind;
    for (kind = 0; kind < 4; kind++) {
        const float *kw = kind & 1 ? w : NULL, *kb = kind & 2 ? b : NULL;
        memcpy(z, y, ((size_t)n * 2 + 1) * sizeof *z);
        k->norm(y, x, 0.1f, 1.7f, kw, kb, n);
        CHECK(y[n] == z[n]);
        ref->norm(z, x, 0.1f, 1.7f, kw, kb, n);
        for (i = 0; i < n; i++) {
            double want = ((double)x[i] - 0.1f) * 1.7f * (kw ? kw[i] : 1) + (kb ? kb[i] : 0);
            CHECK(fabs(y[i] - want) <= 1e-6 && fabs(y[i] - z[i]) <= 1e-6);
        }
    }
    memcpy(y, x, (size_t)n * sizeof *y);
    y[n] = 77;
    k->softcap(y, 3.0f, 2.5f, n);
    CHECK(y[n] == 77);
    for (i = 0; i < n; i++) CHECK(math_near(y[i], 2.5 * tanh(3.0 * x[i] / 2.5), 1e-6));
    for (kind = INFER__ROPE_PAIRS; kind <= INFER__ROPE_HALVES; kind++) {
        memcpy(y, x, (size_t)n * 2 * sizeof *y);
        y[2 * n] = 77;
        k->rotate(y, w, w + n, n, kind);
        CHECK(y[2 * n] == 77);
        for (i = 0; i < n; i++) {
            int p = kind == INFER__ROPE_PAIRS ? 2 * i : i, q = kind == INFER__ROPE_PAIRS ? 2 * i + 1 : i + n;
            CHECK(fabs(y[p] - ((double)x[p] * w[i] - (double)x[q] * w[n + i])) <= 1e-6);
            CHECK(fabs(y[q] - ((double)x[p] * w[n + i] + (double)x[q] * w[i])) <= 1e-6);
        }
    }
    free(x);
    free(w);
    free(y);
    free(z);
    free(b);
}

static void math_finite_at(const infer__kernels *k) {
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u};
    float x[300];
    int i, j;
    for (i = 0; i < 300; i++) x[i] = i & 1 ? infer__bits_f32(0x7f7fffffu) : infer__bits_f32(0x80000001u);
    for (i = 0; i <= 300; i++) CHECK(k->finite(x, i));
    for (i = 0; i < 300; i++)
        for (j = 0; j < 5; j++) {
            float was = x[i], now = infer__bits_f32(bad[j]);
            memcpy(&x[i], &now, sizeof now);
            CHECK(!k->finite(x, 300) && k->finite(x, i) && k->finite(x + i + 1, 299 - i));
            x[i] = was;
        }
}

static void test_math_levels(void) {
    const infer__kernels *ref = infer__kernels_find(0);
    size_t r, s;
    int kind;
    for (r = 0; r < INFER__COUNT(infer__kernel_rows); r++) {
        const infer__kernels *k = &infer__kernel_rows[r];
        if (k->need & ~infer__cpu_found()) continue;
        check_detail = k->name;
        for (s = 0; s < INFER__COUNT(ops_sizes); s++) {
            for (kind = INFER__ACT_SILU; kind < INFER__ACTS; kind++) math_act_at(k, ref, kind, ops_sizes[s]);
            math_rows_at(k, ref, ops_sizes[s]);
        }
        math_finite_at(k);
    }
    check_detail = "";
}

/* Three sets of frequencies and room for two: kept angles or not, the bits are the same, and a new pass has new ones. */
static void test_math_rope_kept(void) {
    enum { N = 5, HEADS = 2, DIM = 24, ROT = 20 };
    float freq[3][ROT], *x = ops_floats(N * HEADS * DIM), *y = ops_floats(N * HEADS * DIM);
    int32_t pos[N] = {0, 3, 4, 900, 70000}, seq[N] = {0, 0, 1, 1, 0}, extended[2] = {0, 1}, set, i, pass;
    infer__ctx kept, own;
    infer__needs need;
    infer__rope_args a;
    infer__buf b[3], bx;
    for (set = 0; set < 3; set++) {
        for (i = 0; i < ROT; i++) freq[set][i] = 0.1f + fabsf(ops_rand());
        memset(&b[set], 0, sizeof b[set]);
        b[set].host = freq[set];
        b[set].bytes = sizeof freq[set];
    }
    ops_open(&own, 2, infer__cpu_found(), HEADS * DIM);
    own.pass.pos = pos;
    own.pass.seq = seq;
    own.pass.extended = extended;
    kept = own;
    memset(&need, 0, sizeof need);
    need.rows = N;
    need.cols = HEADS * DIM;
    need.turn_sets = 2;
    need.turn_cols = ROT;
    CHECK(kept.ops->prepare(&kept, &need));
    memset(&a, 0, sizeof a);
    a.n_head = HEADS;
    a.dim = DIM;
    a.n_rot = ROT;
    a.scale = 1.1f;
    a.kind = INFER__ROPE_PAIRS;
    for (pass = 0; pass < 2; pass++) {
        kept.ops->begin(&kept);
        for (i = 0; i < 7; i++) {
            a.freq = &b[i % 3];
            memcpy(y, x, N * HEADS * DIM * sizeof *y);
            a.x = ops_tensor(&bx, y, N, HEADS * DIM, HEADS * DIM);
            own.ops->rope(&own, &a);
            a.x = ops_tensor(&bx, x, N, HEADS * DIM, HEADS * DIM);
            kept.ops->rope(&kept, &a);
            CHECK(memcmp(x, y, N * HEADS * DIM * sizeof *y) == 0);
        }
        for (i = 0; i < N; i++) pos[i] += 17;
    }
    CHECK(infer__ok(&kept));
    kept.ops->finish(&kept);
    ops_close(&own);
    free(x);
    free(y);
}

static void suite_math(void) {
    RUN(test_math_values);
    RUN(test_math_levels);
    RUN(test_math_rope_kept);
}
