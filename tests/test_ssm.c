/* test_ssm.c: state spaces: the op and the convolution before it beside double, their independence of cuts and threads,
 * sizes in files that do not fit together, and allocations that fail. */

/* ---- the ops -------------------------------------------------------------------------------------------------------- */

enum { SSM_ROWS = 37, SSM_CELLS = 6 };

typedef struct ssm_case { int32_t heads, dim, groups, state, own_a; float most; /* of a */ } ssm_case;

typedef struct ssm_data {
    float *x, *dt, *bc, *a, *bias, *skip, *cells, *y;
    infer__weight wa, wb, ws;
    infer__buf b[6];
    infer__ssm_args args;
    size_t cell;
} ssm_data;

static const int32_t SSM_SEQ[SSM_ROWS] = { 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                                          2, 2, 2, 2, 2, 2, 2, 2 };

static void ssm_make(ssm_data *d, const ssm_case *k) {
    const int32_t inner = k->heads * k->dim, n_bc = k->groups * k->state, units = infer__ssm_units(k->heads, k->own_a);
    const size_t n_a = k->own_a ? (size_t)units * INFER__LANES * (size_t)k->state : (size_t)k->heads;
    size_t i;
    memset(d, 0, sizeof *d);
    d->cell = (size_t)units * (size_t)k->state * (size_t)infer__ssm_lanes(k->dim, k->own_a);
    d->x = ops_floats((size_t)SSM_ROWS * (size_t)(inner + 3));
    d->dt = ops_floats((size_t)SSM_ROWS * (size_t)k->heads);
    d->bc = ops_floats((size_t)SSM_ROWS * 2 * (size_t)n_bc);
    d->a = ops_floats(n_a);
    d->bias = ops_floats((size_t)k->heads);
    d->skip = ops_floats((size_t)k->heads);
    d->cells = ops_floats(SSM_CELLS * d->cell);
    d->y = ops_floats((size_t)SSM_ROWS * (size_t)(inner + 3));
    for (i = 0; i < n_a; i++) d->a[i] = k->most - 2 * fabsf(d->a[i]);
    d->wa = ops_weight(ops_f32(), d->a, 1, (int32_t)n_a);
    d->wb = ops_weight(ops_f32(), d->bias, 1, k->heads);
    d->ws = ops_weight(ops_f32(), d->skip, 1, k->heads);
    d->args.x = ops_tensor(&d->b[0], d->x, SSM_ROWS, inner, inner + 3);
    d->args.y = ops_tensor(&d->b[1], d->y, SSM_ROWS, inner, inner + 3);
    d->args.dt = ops_tensor(&d->b[2], d->dt, SSM_ROWS, k->heads, k->heads);
    d->args.b = ops_tensor(&d->b[3], d->bc, SSM_ROWS, n_bc, 2 * n_bc);
    d->args.c = d->args.b;
    d->args.c.offset = (uint64_t)n_bc * sizeof(float);
    d->b[5].host = d->cells;
    d->args.cells = &d->b[5];
    d->args.a = &d->wa;
    d->args.dt_bias = &d->wb;
    d->args.skip = &d->ws;
    d->args.heads = k->heads;
    d->args.dim = k->dim;
    d->args.groups = k->groups;
    d->args.state = k->state;
    d->args.own_a = k->own_a;
    d->args.grows = k->most > 0;
}

static void ssm_free(ssm_data *d) {
    free(d->x); free(d->dt); free(d->bc); free(d->a); free(d->bias); free(d->skip); free(d->cells); free(d->y);
}

/* Rows [from, to), which are of the sequences that `seq` has. */
static void ssm_rows(infer__ctx *c, const ssm_data *d, int32_t from, int32_t to, const int32_t *seq, int32_t *in, int32_t *out) {
    infer__ssm_args a = d->args;
    infer__tensor *t[5];
    int i;
    t[0] = &a.x; t[1] = &a.y; t[2] = &a.dt; t[3] = &a.b; t[4] = &a.c;
    for (i = 0; i < 5; i++) {
        t[i]->offset += (uint64_t)from * (uint64_t)t[i]->stride * sizeof(float);
        t[i]->rows = to - from;
    }
    c->pass.seq = (int32_t *)(uintptr_t)(seq + from);
    c->pass.cell_in = in;
    c->pass.cell_out = out;
    c->pass.n_rows = to - from;
    c->ops->ssm(c, &a);
}

/* The definition, for a value i of head h; `cells` as before the op. */
static double ssm_value(const ssm_data *d, const ssm_case *k, const float *cells, int32_t first, int32_t row, int32_t in, int32_t h,
                        int32_t i) {
    const int32_t lanes = infer__ssm_lanes(k->dim, k->own_a), unit = k->own_a ? h / INFER__LANES : h;
    const int32_t lane = k->own_a ? h % INFER__LANES : i, n_bc = k->groups * k->state, group = h / (k->heads / k->groups);
    const size_t at = (size_t)unit * (size_t)k->state * (size_t)lanes + (size_t)lane;
    const int32_t stride = k->heads * k->dim + 3;
    double y = 0;
    int32_t n, t;
    for (n = 0; n < k->state; n++) {
        const double a = k->own_a ? d->a[(size_t)unit * INFER__LANES * (size_t)k->state + (size_t)(n * INFER__LANES + lane)] : d->a[h];
        double s = in < 0 ? 0 : cells[(size_t)in * d->cell + at + (size_t)(n * lanes)];
        for (t = first; t <= row; t++) {
            const double step = log1p(exp((double)d->dt[t * k->heads + h] + d->bias[h]));
            s = exp(step * a) * s + step * d->bc[t * 2 * n_bc + group * k->state + n] * d->x[t * stride + h * k->dim + i];
        }
        y += s * d->bc[row * 2 * n_bc + n_bc + group * k->state + n];
    }
    return y + d->skip[h] * d->x[row * stride + h * k->dim + i];
}

/* The largest of n values: states that grow are larger than what is left of them in one value. */
static double ssm_most(const float *y, int32_t n) {
    double most = 0;
    int32_t i;
    for (i = 0; i < n; i++) most = fabs(y[i]) > most ? fabs(y[i]) : most;
    return most;
}

static void test_ssm_op(void) {
    static const ssm_case cases[] = { { 4, 64, 2, 128, 0, 0 },  { 6, 19, 3, 7, 0, 0 }, { 1, 1, 1, 1, 0, 0 },  { 5, 80, 1, 13, 0, 0.3f },
                                      { 128, 1, 1, 16, 1, 0 }, { 37, 1, 1, 5, 1, 0 }, { 9, 1, 1, 3, 1, 0.4f } };
    static const int32_t last[3] = { 4, 5, SSM_ROWS - 1 }, begin[3] = { 0, 5, 6 };
    size_t k;
    int32_t r, h, i, q;
    for (k = 0; k < INFER__COUNT(cases); k++) {
        const ssm_case *o = &cases[k];
        const int32_t stride = o->heads * o->dim + 3;
        const size_t n_y = (size_t)SSM_ROWS * (size_t)stride;
        int32_t in[3] = { 1, -1, 2 }, out[3] = { 3, 4, 5 };
        float *was, *y, *cells;
        ssm_data d;
        infer__ctx c;
        ssm_make(&d, o);
        was = (float *)malloc(SSM_CELLS * d.cell * sizeof *was);
        y = (float *)malloc(n_y * sizeof *y);
        cells = (float *)malloc(SSM_CELLS * d.cell * sizeof *cells);
        memcpy(was, d.cells, SSM_CELLS * d.cell * sizeof *was);
        ops_open(&c, 1, infer__cpu_found(), 64);
        ssm_rows(&c, &d, 0, SSM_ROWS, SSM_SEQ, in, out);
        for (r = 0; r < SSM_ROWS; r += r < 8 ? 1 : 7)
            for (h = 0; h < o->heads; h++)
                for (i = 0; i < o->dim; i++) {
                    const double want = ssm_value(&d, o, was, begin[SSM_SEQ[r]], r, in[SSM_SEQ[r]], h, i);
                    const double size = sqrt(o->state) + ssm_most(d.y + r * stride, o->heads * o->dim);
                    CHECK(ops_near(d.y[r * stride + h * o->dim + i], want, size, 2e-5));
                }
        CHECK(memcmp(was, d.cells, 3 * d.cell * sizeof *was) == 0); /* what was read stays */
        memcpy(y, d.y, n_y * sizeof *y);
        memcpy(cells, d.cells, SSM_CELLS * d.cell * sizeof *cells);
        ops_close(&c);
        ops_open(&c, 3, infer__cpu_found(), 64); /* three threads, and each sequence in two passes where it can be cut */
        for (q = 0; q < 3; q++) {
            const int32_t cut = begin[q] + (last[q] - begin[q] + 1) * 2 / 5;
            int32_t mid[3] = { 0, 0, 0 };
            if (cut > begin[q]) ssm_rows(&c, &d, begin[q], cut, SSM_SEQ, in, mid);
            ssm_rows(&c, &d, cut, last[q] + 1, SSM_SEQ, cut > begin[q] ? mid : in, out);
        }
        for (r = 0; r < SSM_ROWS; r++)
            CHECK(memcmp(y + r * stride, d.y + r * stride, (size_t)(o->heads * o->dim) * sizeof *y) == 0);
        CHECK(memcmp(cells + 3 * d.cell, d.cells + 3 * d.cell, 3 * d.cell * sizeof *cells) == 0);
        ops_close(&c);
        ops_open(&c, 1, 0, 64); /* the scalar level: nearly the same */
        ssm_rows(&c, &d, 0, SSM_ROWS, SSM_SEQ, in, out);
        for (r = 0; r < SSM_ROWS; r++) {
            const double size = sqrt(o->state) + ssm_most(y + r * stride, o->heads * o->dim);
            for (i = 0; i < o->heads * o->dim; i++) CHECK(ops_near(d.y[r * stride + i], y[r * stride + i], size, 2e-5));
        }
        ops_close(&c);
        free(was);
        free(y);
        free(cells);
        ssm_free(&d);
    }
}

/* Bias, SiLU, and columns that come in runs. */
static void test_ssm_conv(void) {
    enum { RUN_OF = 6, RUNS = 11, COLS = RUN_OF * RUNS, ROWS = 5, TAPS = 4 };
    float *x = ops_floats(ROWS * 2 * COLS), *y = ops_floats(ROWS * COLS), *w = ops_floats(TAPS * COLS), *b = ops_floats(COLS);
    float *state = ops_floats(2 * (TAPS - 1) * COLS);
    int32_t seq[ROWS] = { 0 }, in[1] = { 0 }, out[1] = { 1 }, r, i, k;
    infer__weight weight = ops_weight(ops_f32(), w, COLS, TAPS), bias = ops_weight(ops_f32(), b, 1, COLS);
    infer__buf bx, by, bs;
    infer__conv_args a;
    infer__ctx c;
    ops_open(&c, 2, infer__cpu_found(), COLS);
    memset(&a, 0, sizeof a);
    memset(&bs, 0, sizeof bs);
    bs.host = state;
    c.pass.seq = seq;
    c.pass.cell_in = in;
    c.pass.cell_out = out;
    c.pass.n_rows = ROWS;
    a.x = ops_tensor(&bx, x, ROWS, COLS, 2 * COLS);
    a.x_run = RUN_OF;
    a.x_step = 2 * RUN_OF;
    a.y = ops_tensor(&by, y, ROWS, COLS, COLS);
    a.w = &weight;
    a.bias = &bias;
    a.silu = 1;
    a.state = &bs;
    a.taps = TAPS;
    c.ops->conv(&c, &a);
    for (r = 0; r < ROWS; r++)
        for (i = 0; i < COLS; i++) {
            const int32_t at = i / RUN_OF * 2 * RUN_OF + i % RUN_OF;
            double sum = b[i];
            for (k = 0; k < TAPS; k++) {
                const int32_t from = r - (TAPS - 1) + k;
                sum += (double)w[i * TAPS + k] * (from < 0 ? state[(TAPS - 1 + from) * COLS + i] : x[from * 2 * COLS + at]);
            }
            CHECK(ops_near(y[r * COLS + i], sum / (1 + exp(-sum)), 4, 2e-6));
        }
    ops_close(&c);
    free(x); free(y); free(w); free(b); free(state);
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

/* A key's number of a file, as U32 or an array's first, becomes v. 0: there is no such key. */
static int ssm_patch(char *file, size_t n, const char *key, uint32_t v) {
    size_t len = strlen(key), i, k;
    for (i = 24; i + len + 8 < n; i++)
        if (memcmp(file + i, key, len) == 0 && infer__load_u64(file + i - 8) == len) {
            for (k = 0; k < 4; k++) file[i + len + 4 + k] = (char)(v >> 8 * k & 255);
            return 1;
        }
    return 0;
}

/* Numbers that do not fit together, or that no memory would hold, are refused by the name of a key or a tensor. */
static void test_ssm_hostile(void) {
    static const struct { const char *file, *key; uint32_t v; const char *why; } cases[] = {
        { "mamba-plain-dense", "mamba.ssm.state_size", 16, NULL },
        { "mamba-plain-dense", "mamba.ssm.state_size", 0, "mamba.ssm.state_size is 0" },
        { "mamba-plain-dense", "mamba.ssm.state_size", 0xffffffffu, "mamba.ssm.state_size" },
        { "mamba-plain-dense", "mamba.ssm.state_size", 1025, "mamba.ssm.state_size is 1025" },
        { "mamba-plain-dense", "mamba.ssm.state_size", 8, "tensor blk.0.ssm_x.weight" },
        { "mamba-plain-dense", "mamba.ssm.inner_size", 0, "mamba.ssm.inner_size is 0" },
        { "mamba-plain-dense", "mamba.ssm.inner_size", 0x80000000u, "mamba.ssm.inner_size" },
        { "mamba-plain-dense", "mamba.ssm.inner_size", 1 << 22, "mamba.ssm.inner_size: with these states" },
        { "mamba-plain-dense", "mamba.ssm.inner_size", 64, "tensor blk.0.ssm_in.weight" },
        { "mamba-plain-dense", "mamba.ssm.time_step_rank", 0, "mamba.ssm.time_step_rank is 0" },
        { "mamba-plain-dense", "mamba.ssm.time_step_rank", 5, "tensor blk.0.ssm_" },
        { "mamba-plain-dense", "mamba.ssm.conv_kernel", 1, "mamba.ssm.conv_kernel is 1" },
        { "mamba-plain-dense", "mamba.ssm.conv_kernel", 65, "mamba.ssm.conv_kernel is 65" },
        { "mamba-plain-dense", "mamba.ssm.conv_kernel", 3, "tensor blk.0.ssm_conv1d.weight" },
        { "mamba2-groups-dense", "mamba2.ssm.group_count", 0, "mamba2.ssm.group_count is 0" },
        { "mamba2-groups-dense", "mamba2.ssm.group_count", 3, "mamba2.ssm.group_count: does not divide" },
        { "mamba2-groups-dense", "mamba2.ssm.group_count", 0xfffffff0u, "mamba2.ssm.group_count" },
        { "mamba2-groups-dense", "mamba2.ssm.group_count", 2, "tensor blk.0.ssm_" },
        { "mamba2-groups-dense", "mamba2.ssm.time_step_rank", 7, "mamba2.ssm.time_step_rank: the heads do not divide" },
        { "mamba2-groups-dense", "mamba2.ssm.time_step_rank", 0, "mamba2.ssm.time_step_rank is 0" },
        { "mamba2-groups-dense", "mamba2.ssm.time_step_rank", 16, "tensor blk.0.ssm_" },
        { "mamba2-groups-dense", "mamba2.ssm.inner_size", 1 << 22, "mamba2.ssm.time_step_rank: heads of more than 1024" },
        { "plamo2-dense", "plamo2.ssm.time_step_rank", 3, "plamo2.ssm.time_step_rank: the heads do not divide" },
        { "plamo2-dense", "plamo2.ssm.time_step_rank", 8, "tensor blk.1.ssm_" },
        { "plamo2-dense", "plamo2.ssm.state_size", 0, "plamo2.ssm.state_size is 0" },
        { "falcon-h1-groups-dense", "falcon-h1.ssm.group_count", 0, "falcon-h1.ssm.group_count is 0" },
        { "granitehybrid-dense", "granitehybrid.ssm.inner_size", 0, "granitehybrid.ssm.inner_size is 0" },
        { "nemotron_h-dense", "nemotron_h.ssm.state_size", 0, "nemotron_h.ssm.state_size is 0" } };
    size_t i, n;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        char name[96], detail[160], *file;
        infer_model *m = NULL;
        snprintf(name, sizeof name, "archs/%s.gguf", cases[i].file);
        snprintf(detail, sizeof detail, "%s %lu", cases[i].key, (unsigned long)cases[i].v);
        check_detail = detail;
        file = check_read(check_data(name), &n);
        CHECK(file && ssm_patch(file, n, cases[i].key, cases[i].v));
        if (file) CHECK(infer_model_open_memory(&m, file, n, NULL, NULL) == INFER_OK);
        if (m) {
            CHECK((m->why_code == INFER_OK) == (cases[i].why == NULL));
            if (cases[i].why) CHECK_HAS(infer_model_why_not(m), cases[i].why);
            CHECK(infer_model_close(m) == INFER_OK);
        }
        free(file);
    }
    check_detail = "";
}

/* A key or a tensor that is not there, by the name of its first letters' change. */
static void test_ssm_missing(void) {
    static const char *const names[] = { "nemotron_h.ssm.conv_kernel", "nemotron_h.ssm.inner_size", "nemotron_h.ssm.group_count",
                                         "blk.1.ssm_a", "blk.1.ssm_d", "blk.1.ssm_dt.bias", "blk.1.ssm_out.weight",
                                         "blk.1.ssm_conv1d.weight", "blk.2.ffn_up.weight", "blk.1.attn_norm.weight" };
    size_t i, j, n;
    for (i = 0; i < INFER__COUNT(names); i++) {
        char *file = check_read(check_data("archs/nemotron_h-dense.gguf"), &n), *at = NULL;
        size_t len = strlen(names[i]);
        infer_model *m = NULL;
        check_detail = names[i];
        for (j = 24; file && !at && j + len < n; j++)
            if (memcmp(file + j, names[i], len) == 0 && infer__load_u64(file + j - 8) == len) at = file + j;
        CHECK(at != NULL);
        if (at) {
            at[len - 1] = '~';
            CHECK(infer_model_open_memory(&m, file, n, NULL, NULL) == INFER_OK && m && m->why_code != INFER_OK);
            if (m) CHECK_HAS(infer_model_why_not(m), names[i]);
            infer_model_close(m);
        }
        free(file);
    }
    check_detail = "";
}

/* Every allocation of opening, evaluating, going back and forking fails once. */
static infer_result ssm_scenario(const char *path) {
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_session *s = NULL, *t = NULL;
    infer_error e;
    infer_token ids[12] = { 1, 5, 9, 2, 7, 3, 11, 4, 6, 8, 10, 12 };
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    mp.backend = INFER_CPU;
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    r = infer_model_open(&m, path, &mp, &e);
    if (r) return r;
    if (m->why_code == INFER_ERR_MEMORY) r = m->why_code; /* while its layers were made */
    p.context = 32;
    p.own.threads = 2;
    if (!r) r = infer_session_create(&s, m, &p, &e);
    if (!r) r = infer_session_eval(s, ids, 12);
    if (!r) r = infer_session_fork(&t, s, &e);
    if (!r) r = infer_session_rewind(t, 5);
    if (!r) r = infer_session_eval(t, ids, 3);
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return r;
}

static void test_ssm_oom(void) {
    static const char *const files[] = { "archs/mamba-plain-dense.gguf", "archs/nemotron_h-dense.gguf" };
    size_t k;
    for (k = 0; k < INFER__COUNT(files); k++) {
        long total, i, failed = 0;
        check_fail_at = check_allocs = check_live = 0;
        CHECK(ssm_scenario(check_data(files[k])) == INFER_OK && check_live == 0);
        total = check_allocs;
        for (i = 1; i <= total && check_bad < 5; i++) {
            infer_result r;
            check_allocs = check_live = 0;
            check_fail_at = i;
            r = ssm_scenario(check_data(files[k]));
            failed += r == INFER_ERR_MEMORY;
            CHECK(r == INFER_ERR_MEMORY || r == INFER_OK);
            CHECK(check_live == 0);
        }
        CHECK(failed > 10);
        check_fail_at = 0;
    }
}

static void suite_ssm(void) {
    RUN(test_ssm_op);
    RUN(test_ssm_conv);
    RUN(test_ssm_hostile);
    RUN(test_ssm_missing);
    RUN(test_ssm_oom);
}
