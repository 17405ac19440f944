/* test_gpu_wkv.c: RWKV's recurrences on devices against the CPU's scalar level, two sequences in a pass; then the first one
 * cut into two passes, which gives the same bits. Part of test_gpu_ops.c; uses helpers of test_gpu_step.c. */

typedef struct gpu_wkv { int32_t kind, heads, kv_heads, dim, mix; gpu_tensor kv, x, y, bonus, cells; gpu_weight u, k_k, k_a; } gpu_wkv;

static void gpu_wkv_run(gpu_pair *p, gpu_wkv *t, int gpu, int32_t from, int32_t n) {
    infer__ctx *c = gpu ? &p->gpu : &p->cpu;
    const infer__tensor *kv = gpu ? &t->kv.gpu : &t->kv.cpu, *x = gpu ? &t->x.gpu : &t->x.cpu;
    const int32_t all = t->heads * t->dim, kvs = t->kv_heads * t->dim, seven = t->kind == INFER__WKV_7;
    infer__wkv_args a;
    memset(&a, 0, sizeof a);
    a.kind = t->kind;
    a.heads = t->heads;
    a.kv_heads = t->kv_heads;
    a.dim = t->dim;
    a.k = gpu_step_part(kv, from, n, 0, kvs);
    a.v = gpu_step_part(kv, from, n, kvs, kvs);
    a.r = gpu_step_part(x, from, n, 0, all);
    a.w = gpu_step_part(x, from, n, all, all);
    if (seven) a.rate = gpu_step_part(x, from, n, 2 * all, all);
    if (seven) a.bonus = gpu_step_part(gpu ? &t->bonus.gpu : &t->bonus.cpu, from, n, 0, all);
    if (t->mix) a.first = gpu_step_part(x, from, n, 3 * all, all);
    if (t->mix) a.mix = gpu_step_part(x, from, n, 4 * all, all);
    a.y = gpu_step_part(gpu ? &t->y.gpu : &t->y.cpu, from, n, 0, all);
    a.u = t->kind == INFER__WKV_GATED ? NULL : &t->u.w;
    a.k_k = seven ? &t->k_k.w : NULL;
    a.k_a = seven ? &t->k_a.w : NULL;
    a.cells = gpu ? &t->cells.on_gpu : &t->cells.on_cpu;
    c->ops->wkv(c, &a);
}

static void gpu_wkv_case(gpu_pair *p, int32_t kind, int32_t heads, int32_t kv_heads, int32_t dim, int32_t rows, int mix) {
    const int32_t lanes = infer__ssm_lanes(dim, 0), all = heads * dim, cell = heads * lanes * lanes;
    const int32_t first = rows - rows / 3, cut = first * 2 / 5;
    int32_t cells[4], i;
    gpu_wkv t;
    float *y, *z;
    char name[120];
    snprintf(name, sizeof name, "kind %d, %d heads of %d, %d of k and v, %d rows, mix %d", (int)kind, (int)heads, (int)dim,
             (int)kv_heads, (int)rows, mix);
    check_detail = name;
    memset(&t, 0, sizeof t);
    t.kind = kind;
    t.heads = heads;
    t.kv_heads = kv_heads;
    t.dim = dim;
    t.mix = mix;
    gpu_make(p, &t.cells, STEP_CELLS, cell, 0, 0);
    for (i = 0; i < STEP_CELLS * cell; i++) /* what lies beyond a head's values is 0 */
        if (i / 16 % lanes >= dim || i / 16 / lanes % (lanes / 16) * 16 + i % 16 >= dim) ((float *)t.cells.on_cpu.host)[i] = 0;
    gpu_send(p, &t.cells);
    gpu_make(p, &t.kv, rows, 2 * kv_heads * dim, 1, 2);
    gpu_make(p, &t.x, rows, 5 * all, 2, 1);
    gpu_make(p, &t.y, rows, all, 1, 3);
    gpu_make(p, &t.bonus, rows, all, 0, 1);
    gpu_vector_make(p, &t.u, 0, all);
    gpu_vector_make(p, &t.k_k, 0, all);
    gpu_vector_make(p, &t.k_a, 0, all);
    gpu_step_pass(p, cells, rows, 2);
    gpu_wkv_run(p, &t, 0, 0, rows);
    gpu_wkv_run(p, &t, 1, 0, rows);
    gpu_near(p, &t.y, 4 + sqrt(dim), NULL);
    gpu_near(p, &t.bonus, 4 + sqrt(dim), NULL);
    gpu_near(p, &t.cells, 4, NULL);
    y = (float *)gpu_fetch(p, &t.y.on_gpu);
    if (cut > 0) { /* by way of cell 4 to 2 */
        gpu_step_pass(p, cells, cut, 1);
        cells[2] = 4;
        gpu_begin(p);
        gpu_wkv_run(p, &t, 1, 0, cut);
        gpu_step_pass(p, cells, first - cut, 1);
        cells[0] = 4;
        gpu_begin(p);
        gpu_wkv_run(p, &t, 1, cut, first - cut);
        z = (float *)gpu_fetch(p, &t.y.on_gpu);
        CHECK(memcmp(z, y, (size_t)t.y.on_gpu.bytes) == 0);
        free(z);
    }
    free(y);
    gpu_drop(p, &t.cells);
    gpu_drop(p, &t.kv);
    gpu_drop(p, &t.x);
    gpu_drop(p, &t.y);
    gpu_drop(p, &t.bonus);
    gpu_weight_drop(p, &t.u);
    gpu_weight_drop(p, &t.k_k);
    gpu_weight_drop(p, &t.k_a);
    p->cpu.pass.cell_in = p->cpu.pass.cell_out = NULL;
    check_detail = "";
}

static void test_gpu_ops_wkv(void) {
    static const int16_t sizes[][4] = { { 1, 1, 1, 2 }, { 4, 2, 33, 7 }, { 3, 3, 64, 30 }, { 2, 1, 16, 18 } };
    gpu_pair p;
    int32_t kind;
    size_t i;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 65, 4, 1);
        infer__cpu_select(&p.cpu, 0);
        for (kind = INFER__WKV_6; kind <= INFER__WKV_7; kind++)
            for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                if (gpu_small() && i != 1 && (int32_t)i != kind % 3) continue;
                gpu_wkv_case(&p, kind, sizes[i][0], sizes[i][1], sizes[i][2], gpu_small() ? INFER__MIN(sizes[i][3], 5) : sizes[i][3],
                             kind == INFER__WKV_7 && i % 2);
            }
        gpu_pair_close(&p);
    }
}
