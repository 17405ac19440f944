/* test_gpu_step.c: recurrent layers on devices against the CPU: convolutions, state spaces, delta rules. Part of
 * test_gpu_ops.c, whose helpers it uses. Each case is done at the CPU's scalar level too, in passes of two sessions (or of
 * one), the second one without a state; then what a pass left is cut into two, which gives the same bits. */

enum { STEP_CELLS = 5 };

/* Rows of a pass: the first sequence has all but a third of them, and a state in cell 1; results go to cells 2 and 3. */
static void gpu_step_pass(gpu_pair *p, int32_t *cells, int32_t rows, int32_t n_seq) {
    infer__pass *pass = &p->cpu.pass;
    int32_t i;
    cells[0] = 1;
    cells[1] = -1;
    cells[2] = 2;
    cells[3] = 3;
    pass->n_rows = pass->n_out = rows;
    pass->n_seq = n_seq;
    for (i = 0; i < rows; i++) pass->seq[i] = n_seq > 1 && i >= rows - rows / 3;
    pass->cell_in = cells;
    pass->cell_out = cells + 2;
    gpu_begin(p);
}

/* Rows [from, from + n) of a tensor of the device, columns [col, col + cols). */
static infer__tensor gpu_step_part(const infer__tensor *t, int32_t from, int32_t n, int32_t col, int32_t cols) {
    infer__tensor part = *t;
    part.offset += ((uint64_t)from * (uint64_t)t->stride + (uint64_t)col) * sizeof(float);
    part.rows = n;
    part.cols = cols;
    return part;
}

/* The op of a case on rows [from, from + n) of x (q, k, v; x, B, C), rates and y. */
typedef struct gpu_step {
    int32_t heads, dim, groups, state, kind; /* kind: 0 Mamba-2, 1 Mamba, 2 delta rule, 3 that with tiles of heads, 4 with
                                              * decays of keys, 5 with a bound for these, 6 lightning attention */
    gpu_tensor x, rates, y, cells;
    gpu_weight a, bias, skip;
} gpu_step;

static void gpu_step_run(gpu_pair *p, gpu_step *t, int gpu, int32_t from, int32_t n) {
    infer__ctx *c = gpu ? &p->gpu : &p->cpu;
    const infer__tensor *x = gpu ? &t->x.gpu : &t->x.cpu, *rates = gpu ? &t->rates.gpu : &t->rates.cpu;
    const infer__tensor *y = gpu ? &t->y.gpu : &t->y.cpu;
    const int32_t inner = t->heads * t->dim, keys = t->groups * t->state, each = t->heads / t->groups;
    infer__delta_args d;
    infer__ssm_args s;
    if (t->kind < 2) {
        memset(&s, 0, sizeof s);
        s.x = gpu_step_part(x, from, n, 0, inner);
        s.b = gpu_step_part(x, from, n, inner, keys);
        s.c = gpu_step_part(x, from, n, inner + keys, keys);
        s.dt = gpu_step_part(rates, from, n, 0, t->heads);
        s.y = gpu_step_part(y, from, n, 0, inner);
        s.a = &t->a.w;
        s.dt_bias = &t->bias.w;
        s.skip = &t->skip.w;
        s.cells = gpu ? &t->cells.on_gpu : &t->cells.on_cpu;
        s.heads = t->heads;
        s.dim = t->dim;
        s.groups = t->groups;
        s.state = t->state;
        s.own_a = t->kind;
        s.grows = 1;
        c->ops->ssm(c, &s);
        return;
    }
    memset(&d, 0, sizeof d);
    d.v = gpu_step_part(x, from, n, 0, inner);
    d.k = gpu_step_part(x, from, n, inner, keys);
    d.q = gpu_step_part(x, from, n, inner + keys, keys);
    d.beta = gpu_step_part(rates, from, n, 0, t->heads);
    d.run = t->kind == 3 ? t->heads : each;
    d.run_step = t->kind == 3 ? t->heads : 2 * each;
    d.alpha = gpu_step_part(rates, from, n, d.run, t->heads);
    d.y = gpu_step_part(y, from, n, 0, inner);
    d.a = &t->a.w;
    d.dt_bias = &t->bias.w;
    d.cells = gpu ? &t->cells.on_gpu : &t->cells.on_cpu;
    d.heads = t->heads;
    d.k_heads = t->groups;
    d.dim = t->dim;
    d.state = t->state;
    d.tiled = t->kind == 3;
    d.eps = 1e-6f;
    if (t->kind > 3) d.run = d.run_step = t->heads;
    if (t->kind == 4 || t->kind == 5) {
        d.kind = INFER__DELTA_KEYS;
        d.bound = t->kind == 5 ? -5.0f : 0;
        d.alpha = gpu_step_part(rates, from, n, t->heads, keys);
    }
    if (t->kind == 6) {
        d.kind = INFER__DELTA_PLAIN;
        d.step = 3 * t->dim;
        d.q = gpu_step_part(x, from, n, 0, 3 * inner);
        d.k = gpu_step_part(x, from, n, t->dim, 3 * inner - t->dim);
        d.v = gpu_step_part(x, from, n, 2 * t->dim, 3 * inner - 2 * t->dim);
    }
    c->ops->delta(c, &d);
}

static void gpu_step_case(gpu_pair *p, int kind, int32_t heads, int32_t dim, int32_t groups, int32_t state, int32_t rows,
                          int32_t n_seq) {
    const int32_t units = infer__ssm_units(heads, kind == 1), lanes = infer__ssm_lanes(dim, kind == 1);
    const int32_t inner = heads * dim, cell = units * state * lanes, first = rows - (n_seq > 1 ? rows / 3 : 0);
    const int32_t cut = first * 2 / 5;
    int32_t cells[4], i, n_a = kind == 1 ? units * INFER__LANES * state : heads;
    float *a = ops_floats((size_t)n_a), *y, *was;
    gpu_step t;
    char name[160];
    snprintf(name, sizeof name, "kind %d, %d heads of %d, %d groups of %d, %d rows of %d sessions", kind, (int)heads, (int)dim,
             (int)groups, (int)state, (int)rows, (int)n_seq);
    check_detail = name;
    memset(&t, 0, sizeof t);
    t.heads = heads;
    t.dim = dim;
    t.groups = groups;
    t.state = state;
    t.kind = kind;
    gpu_make(p, &t.cells, STEP_CELLS, cell, 0, 0);
    for (i = 0; kind != 1 && i < STEP_CELLS * cell; i++) /* lanes beyond a head's are 0 */
        if ((kind == 0 ? i % lanes : i / (state * INFER__LANES) % (lanes / INFER__LANES) * INFER__LANES + i % INFER__LANES) >= dim)
            ((float *)t.cells.on_cpu.host)[i] = 0;
    gpu_send(p, &t.cells);
    gpu_make(p, &t.x, rows, inner + 2 * groups * state, 3, 1);
    gpu_make(p, &t.rates, rows, kind == 4 || kind == 5 ? heads + heads * state : 2 * heads, 1, 2);
    gpu_make(p, &t.y, rows, inner, 2, 3);
    for (i = 0; i < n_a; i++) a[i] = (rows > 20 ? 0 : 0.2f) - 2 * fabsf(a[i]); /* some grow, not for long */
    gpu_weight_of(p, &t.a, ops_f32(), a, 1, n_a, 1);
    gpu_vector_make(p, &t.bias, 0, kind == 4 || kind == 5 ? heads * state : heads);
    gpu_vector_make(p, &t.skip, 0, heads);
    gpu_step_pass(p, cells, rows, n_seq);
    gpu_step_run(p, &t, 0, 0, rows);
    gpu_step_run(p, &t, 1, 0, rows);
    gpu_near(p, &t.y, 4 + sqrt(state), NULL);
    gpu_near(p, &t.cells, 4, NULL);
    y = (float *)gpu_fetch(p, &t.y.on_gpu);
    was = (float *)gpu_fetch(p, &t.cells.on_gpu);
    CHECK(memcmp(was, t.cells.on_cpu.host, 2 * (size_t)cell * sizeof *was) == 0); /* what is read stays */
    if (cut > 0) { /* the first sequence again, in two passes: by way of cell 4 to 2 */
        float *z;
        gpu_step_pass(p, cells, cut, 1);
        cells[2] = 4;
        gpu_begin(p);
        gpu_step_run(p, &t, 1, 0, cut);
        gpu_step_pass(p, cells, first - cut, 1);
        cells[0] = 4;
        gpu_begin(p);
        gpu_step_run(p, &t, 1, cut, first - cut);
        z = (float *)gpu_fetch(p, &t.y.on_gpu);
        CHECK(memcmp(z, y, (size_t)t.y.on_gpu.bytes) == 0);
        free(z);
        z = (float *)gpu_fetch(p, &t.cells.on_gpu);
        CHECK(memcmp(z, was, 4 * (size_t)cell * sizeof *z) == 0);
        free(z);
    }
    if (kind < 2) { /* y may be x */
        infer__tensor on_gpu = t.y.gpu;
        float *z;
        gpu_step_pass(p, cells, rows, n_seq);
        t.y.gpu = t.x.gpu;
        gpu_step_run(p, &t, 1, 0, rows);
        z = (float *)gpu_fetch(p, &t.x.on_gpu);
        for (i = 0; i < rows; i++)
            CHECK(memcmp(z + t.x.cpu.offset / sizeof *z + (int64_t)i * t.x.cpu.stride,
                         y + t.y.cpu.offset / sizeof *y + (int64_t)i * t.y.cpu.stride, (size_t)inner * sizeof *z) == 0);
        t.y.gpu = on_gpu;
        free(z);
    }
    free(y);
    free(was);
    gpu_weight_drop(p, &t.a);
    gpu_weight_drop(p, &t.bias);
    gpu_weight_drop(p, &t.skip);
    gpu_drop(p, &t.x);
    gpu_drop(p, &t.rates);
    gpu_drop(p, &t.y);
    gpu_drop(p, &t.cells);
    p->cpu.pass.cell_in = p->cpu.pass.cell_out = NULL;
    check_detail = "";
}

static void test_gpu_ops_step(void) {
    static const struct { int16_t kind, heads, dim, groups, state, rows, n_seq, small; } cases[] = {
        { 0, 1, 1, 1, 1, 1, 1, 1 },     { 0, 6, 19, 3, 7, 7, 2, 1 },    { 0, 4, 33, 2, 65, 2, 1, 0 }, { 0, 2, 17, 1, 20, 2, 1, 1 },  { 0, 3, 64, 1, 128, 65, 2, 0 },
        { 0, 2, 80, 2, 256, 9, 2, 0 },  { 1, 1, 1, 1, 1, 1, 1, 1 },     { 1, 37, 1, 1, 5, 7, 2, 1 },   { 1, 128, 1, 1, 16, 65, 2, 0 },
        { 1, 9, 1, 1, 71, 2, 1, 0 }, { 1, 20, 1, 1, 64, 18, 2, 0 },    { 2, 1, 1, 1, 1, 1, 1, 1 },     { 2, 4, 17, 2, 13, 7, 2, 1 },  { 3, 6, 33, 2, 40, 2, 1, 0 }, { 3, 2, 17, 1, 20, 2, 1, 1 },
        { 2, 2, 128, 1, 128, 65, 2, 0 }, { 3, 4, 64, 2, 129, 20, 2, 0 }, { 2, 1, 16, 1, 256, 17, 1, 0 },
        { 4, 1, 1, 1, 1, 1, 1, 1 },     { 4, 3, 17, 3, 13, 7, 2, 1 },  { 4, 2, 128, 2, 128, 65, 2, 0 }, { 5, 2, 33, 2, 70, 18, 2, 0 }, { 5, 1, 17, 1, 21, 5, 2, 1 },
        { 5, 1, 16, 1, 256, 9, 1, 0 },  { 6, 2, 33, 2, 33, 18, 2, 0 }, { 6, 1, 17, 1, 17, 5, 2, 1 }, { 6, 1, 128, 1, 128, 30, 1, 0 } };
    gpu_pair p;
    size_t i;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 65, 4, 1);
        infer__cpu_select(&p.cpu, 0);
        for (i = 0; i < sizeof cases / sizeof *cases; i++)
            if (cases[i].small || !gpu_small())
                gpu_step_case(&p, cases[i].kind, cases[i].heads, cases[i].dim, cases[i].groups, cases[i].state,
                              gpu_small() ? INFER__MIN(cases[i].rows, 4) : cases[i].rows, cases[i].n_seq);
        gpu_pair_close(&p);
    }
}

/* Two sessions, taps, gates or bias with SiLU, columns in runs. */
static void gpu_conv_case(gpu_pair *p, int32_t cols, int32_t taps, int32_t rows, int gated, int32_t run, int32_t apart) {
    gpu_tensor x, y, state;
    gpu_weight w, bias;
    infer__conv_args a;
    int32_t cells[4], g;
    char name[120];
    snprintf(name, sizeof name, "%d columns, %d taps %d apart, %d rows, gated %d, runs of %d", (int)cols, (int)taps, (int)apart, (int)rows, gated,
             (int)run);
    check_detail = name;
    gpu_make(p, &state, STEP_CELLS * (taps - 1) * INFER__MAX(apart, 1), cols, 0, 0);
    gpu_make(p, &x, rows, 3 * cols, 1, 2);
    gpu_make(p, &y, rows, cols, 2, 1);
    memset(&a, 0, sizeof a);
    a.w = gpu_weight_make(p, &w, ops_f32(), cols, taps, 0);
    gpu_vector_make(p, &bias, 1, cols);
    a.bias = gated ? NULL : &bias.w;
    a.silu = !gated;
    a.x_run = run;
    a.x_step = 3 * run;
    a.taps = taps;
    a.apart = apart;
    gpu_step_pass(p, cells, rows, 2);
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p->gpu : &p->cpu;
        const infer__tensor *from = g ? &x.gpu : &x.cpu;
        a.x = gpu_step_part(from, 0, rows, 0, cols);
        if (gated) {
            a.gate_in = gpu_step_part(from, 0, rows, cols, cols);
            a.gate_out = gpu_step_part(from, 0, rows, 2 * cols, cols);
        }
        a.y = g ? y.gpu : y.cpu;
        a.state = g ? &state.on_gpu : &state.on_cpu;
        c->ops->conv(c, &a);
    }
    gpu_near(p, &y, taps, NULL);
    gpu_near(p, &state, 1, NULL);
    gpu_weight_drop(p, &w);
    gpu_weight_drop(p, &bias);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
    gpu_drop(p, &state);
    p->cpu.pass.cell_in = p->cpu.pass.cell_out = NULL;
    check_detail = "";
}

static void test_gpu_ops_conv(void) {
    gpu_pair p;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 65, 4, 1);
        gpu_conv_case(&p, 1, 2, 1, 1, 0, 0);
        gpu_conv_case(&p, 66, 4, 7, 0, 0, 1);
        gpu_conv_case(&p, 66, 4, 7, 0, 11, 0);
        gpu_conv_case(&p, 65, 3, 2, 1, 0, 0);
        gpu_conv_case(&p, 65, 3, 17, 0, 0, 3);
        gpu_conv_case(&p, 64, 4, 5, 1, 0, 2);
        if (!gpu_small()) gpu_conv_case(&p, 300, 7, 65, 0, 100, 0);
        gpu_pair_close(&p);
    }
}
