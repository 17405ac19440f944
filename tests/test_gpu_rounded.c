/* test_gpu_rounded.c: products whose input is quantised to 8 bits or converted to halves, and the ops fused with them,
 * on devices against the CPU's scalar level, which rounds alike. Part of test_gpu_ops.c, whose helpers it uses. */

/* A product with fused ops, computed by infer__matmul on both. */
typedef struct gpu_mix {
    int32_t n_w, types[3], rows[3], cols, n;
    int bias, norm, act, add, keep, aligned; /* norm: 1 + INFER__NORM_*; act: 1 + INFER__ACT_*; aligned: results lie at
                                               * multiples of 16 bytes */
} gpu_mix;

/* Where both round, sums of integers are the same, and float sums differ by their order. A norm before the rounding may
 * make it choose the other of two codes here and there: NMSE then. */
static void gpu_mix_case(gpu_pair *p, const gpu_mix *t, uint64_t launches) {
    gpu_tensor before, x, y[3], to;
    gpu_weight w[3], b[3], nw;
    infer__norm_args norm;
    infer__act_args act;
    infer__add_args add;
    infer__matmul_args a;
    int32_t j, g, i, r;
    int alike; /* x is quantised on both, or on neither */
    double *sizes = (double *)calloc((size_t)t->n * 2048, sizeof *sizes);
    float *v = ops_floats((size_t)t->cols);
    gpu_tensor *result;
    char name[120];
    snprintf(name, sizeof name, "%d matrices %d x %d, type %d, %d rows, bias %d norm %d act %d add %d keep %d", (int)t->n_w,
             (int)t->rows[0], (int)t->cols, (int)t->types[0], (int)t->n, t->bias, t->norm, t->act, t->add, t->keep);
    check_detail = name;
    memset(&a, 0, sizeof a);
    memset(&norm, 0, sizeof norm);
    memset(&act, 0, sizeof act);
    memset(&add, 0, sizeof add);
    gpu_make(p, &before, t->n, t->cols, t->n % 3 * 4, 4);
    gpu_make(p, &x, t->n, t->cols, t->n % 2 * 8, 4);
    gpu_make(p, &to, t->n, t->rows[0], t->aligned ? 4 : 3, t->aligned ? 4 : 2);
    norm.weight = gpu_vector_make(p, &nw, 0, t->cols);
    for (j = 0; j < t->n_w; j++) {
        gpu_make(p, &y[j], t->n, t->rows[j], t->aligned ? 4 : 1 + j, t->aligned ? 4 : j);
        a.w[j] = gpu_weight_make(p, &w[j], infer__quant_find(t->types[j], NULL), t->rows[j], t->cols, 0);
        memset(&b[j], 0, sizeof b[j]);
        if (t->bias >> j & 1) a.b[j] = gpu_vector_make(p, &b[j], 0, t->rows[j]);
    }
    result = t->add ? &to : &y[0];
    a.n_w = t->n_w;
    a.norm = t->norm ? &norm : NULL;
    a.keep = t->keep;
    a.act = t->act ? &act : NULL;
    a.add = t->add ? &add : NULL;
    norm.kind = t->norm - 1;
    norm.n_groups = 1;
    norm.eps = 1e-5f;
    act.kind = t->act - 1;
    add.scale = 0.75f;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p->gpu : &p->cpu;
        uint64_t launched = c->launches;
        norm.x = g ? before.gpu : before.cpu;
        norm.y = a.x = g ? x.gpu : x.cpu;
        for (j = 0; j < t->n_w; j++) a.y[j] = g ? y[j].gpu : y[j].cpu;
        act.x = a.y[t->n_w - 1];
        memset(&act.up, 0, sizeof act.up);
        if (t->n_w == 2) act.up = a.y[0];
        act.y = add.x = a.y[0];
        add.y = g ? to.gpu : to.cpu;
        infer__matmul(c, &a);
        if (g && launches) CHECK(c->launches == launched + launches);
    }
    if (t->keep) gpu_near(p, &x, 2, NULL);
    for (alike = 1, j = 0; j < t->n_w; j++)
        alike = alike && t->types[j] != INFER__GPU_BF16 && /* the CPU makes its x BF16 */
                (t->n <= 8 || (w[j].w.type->values != 1 && infer__gpu_tiles(&p->gpu, &w[j].w, t->n)));
    for (j = 0; j < (t->act || t->add ? 1 : t->n_w); j++) {
        gpu_tensor *o = t->act || t->add ? result : &y[j];
        for (i = 0; i < t->n; i++)
            for (r = 0; r < t->rows[j]; r++) { /* of act(gate) * up: of both factors; of ReLU^2: of gate twice */
                double size = 2 + gpu_dot_size(&w[j].w, r, infer__row(&x.cpu, i), v);
                double gate = t->act ? 4 + gpu_dot_size(&w[t->n_w - 1].w, r, infer__row(&x.cpu, i), v) : 1;
                size *= gate;
                if (t->act == 1 + INFER__ACT_RELU2 && t->n_w == 2) size *= gate;
                sizes[i * t->rows[j] + r] = size;
            }
        if (!t->norm && alike) gpu_near(p, o, 0, sizes);
        else {
            float *z = (float *)gpu_fetch(p, &o->on_gpu);
            size_t floats = (size_t)(o->on_cpu.bytes / sizeof *z);
            /* a value that is rounded to the other side in a few rows counts much; so does x quantised here only */
            /* that of quantising to 8 bits is about 3e-5; where most of an activation is saturated, the rest has more */
            double most = alike ? 3e-5 : t->act && t->n > 64 ? 2e-3 : 1e-4;
            CHECK(check_nmse(z, (const float *)o->on_cpu.host, floats) < most);
            free(z);
        }
    }
    for (j = 0; j < t->n_w; j++) {
        gpu_weight_drop(p, &w[j]);
        gpu_weight_drop(p, &b[j]);
        gpu_drop(p, &y[j]);
    }
    gpu_weight_drop(p, &nw);
    gpu_drop(p, &before);
    gpu_drop(p, &x);
    gpu_drop(p, &to);
    free(sizes);
    free(v);
    check_detail = "";
}

/* 1 when products of a type take quantised input here. */
static int gpu_has_dots(const infer__quant *q) {
    int32_t i;
    for (i = 0; i < INFER__MODULE_COUNT; i++)
        if (infer__module_at(i)->kind == INFER__MODULE_TYPE && infer__module_at(i)->id == q->id)
            return infer__module_at(i)->dots;
    return 0;
}

/* Launches of products of one row that one kernel makes with all that is around them. */
static int gpu_has_one(const gpu_pair *p, const infer__quant *q, int32_t cols) {
    return infer__gpu_find(p->gpu.run, INFER__MODULE_ONE, q->id) && cols % 8 == 0 &&
           (q->values > 1 || cols * q->bytes % 16 == 0);
}

static void gpu_mix_type(gpu_pair *p, const infer__quant *q) {
    static const int32_t units[] = {1, 2, 3, 5, 9, 16}, rows[] = {1, 3, 4, 5, 33, 130};
    int32_t i, unit = q->values == 1 ? 4 : q->values, dots = gpu_has_dots(q);
    int cores = infer__gpu_find(p->gpu.run, INFER__MODULE_FEW, q->id) != NULL;
    gpu_mix t;
    for (i = 0; i < (gpu_small() ? 2 : 16); i++) {
        memset(&t, 0, sizeof t);
        t.n_w = 1 + i % 3;
        t.types[0] = t.types[1] = t.types[2] = q->id;
        t.rows[0] = rows[(i + q->id) % 6];
        t.rows[1] = t.n_w == 2 ? t.rows[0] : rows[(i + 1) % 6];
        t.rows[2] = rows[(i + 2) % 6];
        t.cols = unit * units[(i + q->id) % 6] * (unit == 32 && i % 4 == 3 ? 7 : 1);
        t.n = 1 + i % 8;
        t.bias = i % 8;
        if (t.n_w < 3 && i > 3) t.act = 1 + (i + q->id) % INFER__ACTS_TAKEN;
        t.add = t.n_w == 1 && i % 2;
        t.norm = i % 5 == 4 && t.cols >= 32 ? 1 + i / 5 % 2 : 0;
        if (t.n == 1 && gpu_has_one(p, q, t.cols)) gpu_mix_case(p, &t, 1);
        else gpu_mix_case(p, &t, dots ? 2 : q->values == 1 && (!cores || t.n == 1) ? 1 + (t.norm != 0) : 0);
    }
    for (i = 0; i < 4; i++) { /* what the norm gives is wanted, too */
        memset(&t, 0, sizeof t);
        t.n_w = 1 + i / 2;
        t.types[0] = t.types[1] = q->id;
        t.rows[0] = t.rows[1] = 33;
        t.cols = INFER__MAX(unit, 32) * (i % 2 ? 1 : 17);
        t.n = i == 3 ? 3 : 1;
        t.norm = 1 + i % 2;
        t.keep = 1;
        if (t.n == 1 && gpu_has_one(p, q, t.cols)) gpu_mix_case(p, &t, 1);
        else gpu_mix_case(p, &t, dots ? 3 : t.n == 1 ? 2 : 0);
    }
}

/* 9 to 64 rows: on tensor cores what fewer have. */
static void gpu_mix_tiles(gpu_pair *p, const infer__quant *q) {
    static const int32_t many[] = {9, 16, 17, 32, 33, 64, 2, 21}, rows[] = {16, 33, 47, 5};
    int32_t i, unit = q->values == 1 ? 8 : q->values;
    gpu_mix t;
    for (i = 0; i < (gpu_small() ? 2 : 8); i++) {
        memset(&t, 0, sizeof t);
        t.n_w = 1 + i % 3;
        t.types[0] = t.types[1] = t.types[2] = q->id;
        t.rows[0] = t.rows[1] = rows[(i + q->id) % 4];
        t.rows[2] = 20;
        t.cols = unit < 256 ? unit * (5 + 9 * (i % 4)) : unit * (1 + 2 * (i % 4));
        t.n = many[i];
        t.bias = 7 - i;
        if (t.n_w < 3) t.act = 1 + (i + q->id) % INFER__ACTS_TAKEN;
        t.add = t.n_w == 1;
        t.norm = i == 5;
        gpu_mix_case(p, &t, 0);
    }
}

/* What a row gets is the same bits for 2 to 64 rows (single values: 9 to 64). */
static void gpu_tiles_alone(gpu_pair *p, const infer__quant *q) {
    static const int32_t many[] = {2, 9, 30, 64};
    const int32_t rows = 37, cols = q->values == 1 ? 1032 : INFER__MAX(2 * q->values, 1120 / q->values * q->values);
    gpu_tensor x, y;
    gpu_weight w;
    infer__matmul_args a;
    float *first = NULL, *z;
    int32_t i;
    memset(&a, 0, sizeof a);
    gpu_make(p, &x, 64, cols, 0, 0);
    a.w[0] = gpu_weight_make(p, &w, q, rows, cols, 0);
    a.n_w = 1;
    for (i = q->values == 1 ? 1 : 0; i < 4; i++) {
        gpu_make(p, &y, many[i], rows, 0, 0);
        a.x = x.gpu;
        a.x.rows = many[i];
        a.y[0] = y.gpu;
        infer__matmul(&p->gpu, &a);
        z = (float *)gpu_fetch(p, &y.on_gpu);
        if (first) {
            CHECK(!memcmp(first, z, (size_t)INFER__MIN(many[i], 2) * (size_t)rows * sizeof *z));
            free(z);
        } else {
            first = z;
        }
        gpu_drop(p, &y);
    }
    free(first);
    gpu_weight_drop(p, &w);
    gpu_drop(p, &x);
}

/* 1 when the device's own check let a kind of program go, or it could not be compiled. */
static int gpu_lost(const gpu_pair *p, int32_t kind, const infer__quant *q) {
    return infer__gpu_takes(p->gpu.gpu, &INFER__KINDS[kind]) && infer__gpu_module(kind, q->id) >= 0 &&
           !infer__gpu_find(p->gpu.run, kind, q->id);
}

/* Prompts: by tensor cores where they are, tiles narrow and wide; then with columns enough that tiles share them out,
 * and rows of single values that begin at multiples of 16 bytes; in the end with activations, alone and of a gate, which
 * wgmma takes along (lines, the product, an addition). */
static void gpu_mix_prompts(gpu_pair *p, const infer__quant *q) {
    static const struct { int32_t n, n_w, rows[2], many, act, add, wide, aligned, launches; } cases[] = {
        {17, 1, {130, 0}, 0, 0, 1, 0, 0, 0},   {75, 2, {130, 65}, 0, 0, 0, 0, 0, 0},  {75, 1, {130, 0}, 0, 0, 1, 1, 0, 0},
        {150, 2, {130, 65}, 0, 0, 0, 1, 0, 0}, {75, 1, {132, 0}, 1, 0, 1, 0, 1, 2},   {75, 1, {130, 0}, 1, 0, 0, 1, 0, 2},
        {75, 1, {132, 0}, 1, 0, 1, 1, 1, 2},   {75, 1, {130, 0}, 0, 1, 1, 1, 0, 3},   {75, 2, {132, 132}, 0, 1, 0, 0, 1, 2},
        {75, 2, {130, 130}, 0, 1, 0, 1, 0, 2}};
    const int cores = infer__gpu_find(p->gpu.run, INFER__MODULE_MMA, q->id) != NULL;
    const int matrix = infer__gpu_find(p->gpu.run, INFER__MODULE_MATRIX, q->id) != NULL ||
                       infer__gpu_find(p->gpu.run, INFER__MODULE_TURING, q->id) != NULL;
    const int wgmma = infer__gpu_find(p->gpu.run, INFER__MODULE_WGMMA, q->id) != NULL;
    const int32_t unit = q->values == 1 ? 4 : q->values;
    gpu_mix t;
    size_t i;
    CHECK(!gpu_lost(p, INFER__MODULE_MMA, q) && !gpu_lost(p, INFER__MODULE_MATRIX, q) && !gpu_lost(p, INFER__MODULE_TURING, q));
    for (i = 0; i < (gpu_small() ? 2 * (size_t)matrix : cores || matrix ? INFER__COUNT(cases) : 2); i++) {
        const int one = cases[i].act && q->values == 1; /* rows that do not begin at multiples of 16 bytes */
        memset(&t, 0, sizeof t);
        t.n = cases[i].n;
        t.n_w = cases[i].n_w;
        t.types[0] = t.types[1] = q->id;
        t.rows[0] = cases[i].rows[0];
        t.rows[1] = cases[i].rows[1];
        t.cols = cases[i].many ? 1280 : unit < 256 ? 7 * unit : 2 * unit;
        t.bias = cases[i].act ? 3 : 1;
        t.act = cases[i].act ? 1 + ((int)i + q->id) % INFER__ACTS_TAKEN : 0;
        t.add = cases[i].add;
        t.aligned = cases[i].aligned;
        p->gpu.run->mma_wide = cases[i].wide ? 0 : UINT64_MAX;
        gpu_mix_case(p, &t, wgmma && !one ? (uint64_t)cases[i].launches : 0);
    }
    p->gpu.run->mma_wide = INFER__GPU_MMA_WIDE;
}

static void test_gpu_ops_rounded(void) {
    static const gpu_mix odd[] = {
        {3, {12, 12, 14}, {64, 16, 16}, 768, 1, 0, 1, 0, 0, 0, 0}, /* two types that round: Q and K, then V */
        {3, {12, 1, 12}, {64, 16, 16}, 768, 3, 5, 1, 0, 0, 0, 0},  /* one that does not */
        {2, {12, 14}, {33, 33}, 512, 2, 3, 0, 1, 0, 0, 0},         /* gate and up of two types */
        {2, {8, 8}, {33, 33}, 512, 20, 3, 2, 2, 0, 0, 0},          /* a prompt */
        {1, {8}, {65}, 96, 12, 1, 0, 3, 1, 0, 0},
    };
    const infer__quant *q;
    gpu_pair p;
    int d;
    int32_t i;
    size_t k;
    GPU_NEED();
    gpu_rounded = 1;
    ops_most = 100; /* tensor cores take weights as halves, up to 65,504; and no few values should be all that counts */
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++)
            if (infer__gpu_has_type(q) && (gpu_has_dots(q) || q->id < 2) && !(gpu_small() && i % 2)) gpu_mix_type(&p, q);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++)
            if (infer__gpu_module(INFER__MODULE_MATRIX, q->id) >= 0) gpu_mix_prompts(&p, q);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
            if (!infer__gpu_find(p.gpu.run, INFER__MODULE_FEW, q->id)) continue;
            gpu_mix_tiles(&p, q);
            gpu_tiles_alone(&p, q);
        }
        for (k = 0; k < INFER__COUNT(odd); k++) gpu_mix_case(&p, &odd[k], 0);
        gpu_pair_close(&p);
    }
    gpu_rounded = 0;
    ops_most = 1e19f;
}
