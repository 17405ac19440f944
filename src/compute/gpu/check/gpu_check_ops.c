/* gpu_check_ops.c: the table of device checks: cases of every op, with sizes that are not multiples of a group or tile.
 *
 * Owns:  INFER__PROBES, a row per op and kind of program; infer__gpu_check, which runs them.
 * Rules: a case is made, sent, run on both, fetched and compared (gpu_check.c). Every op and every variant of one needs
 *        a case here: tests/test_gpu_check.c finds the kernels of kernels/kernels.def that no case launches.
 * Start: INFER__PROBES.
 */
#include "../gpu.h"

#ifndef INFER_NO_GPU

/* ---- the base program -------------------------------------------------------------------------------------------- */

/* What case i of n cases of a mask of kinds looks at. */
static int32_t infer__probe_kind(uint32_t mask, int32_t i) {
    int32_t kind, n = 0;
    for (kind = 0; kind < 32; kind++) n += (int32_t)(mask >> kind & 1);
    for (kind = 0, i = n ? i % n : 0; kind < 32; kind++)
        if (mask >> kind & 1 && i-- == 0) return kind;
    return 0;
}
static int infer__probe_has(uint32_t mask, int32_t kind) { return mask >> kind & 1; }

static void infer__probe_norm(infer__prober *k) {
    static const struct { int16_t n, groups, weight, bias, even; } cases[] = { /* even: by fours */
        {300, 1, 1, 1, 0}, {65, 3, 1, 0, 0}, {33, 2, 65, 65, 0}, {1, 1, 0, 0, 0}, {129, 1, 0, 1, 0}, {432, 1, 1, 1, 1}};
    infer__norm_args a;
    infer__weight w, b;
    infer__tensor x, y;
    int32_t kind, g;
    size_t i;
    for (kind = 0; kind < 2; kind++)
        for (i = 0; i < INFER__COUNT(cases); i++) {
            const int32_t n = cases[i].n, cols = n * cases[i].groups, odd = !cases[i].even;
            if (!infer__probe_has(k->uses->norms, kind) || !infer__probe_new(k)) continue;
            x = infer__probe_tensor(k, 3, cols, odd, 2 * odd);
            y = infer__probe_tensor(k, 3, cols, odd ? 2 : 80, odd);
            w = infer__probe_vector(k, cases[i].weight == 1 ? n : cols);
            b = infer__probe_vector(k, cases[i].bias == 1 ? n : cols);
            memset(&a, 0, sizeof a);
            a.weight = cases[i].weight ? &w : NULL;
            a.bias = cases[i].bias ? &b : NULL;
            a.kind = kind;
            a.n_groups = cases[i].groups;
            a.eps = 1e-5f;
            infer__probe_send(k);
            for (g = 0; g < 2; g++) {
                a.x = infer__probe_on(k, &x, g);
                a.y = infer__probe_on(k, &y, g);
                k->side[g].ops->norm(&k->side[g], &a);
            }
            infer__probe_fetch(k);
            infer__probe_near(k, &y, 2, NULL, INFER__PROBE_ROUNDING, 0);
            infer__probe_end(k, "%s, 3 rows of %d x %d values", kind == INFER__NORM_LAYER ? "layer norm" : "RMS",
                             (int)cases[i].groups, (int)n);
        }
}

/* y = act(x), times up, divided: 257 values a row are more than a group has. */
static void infer__probe_act(infer__prober *k) {
    static const char *const names[] = {"SiLU", "GELU (tanh)", "GELU (erf)", "ReLU", "ReLU^2", "sigmoid", "tanh",
                                        "GELU (sigmoid)", "softplus", "xIELU", "linear"};
    static const float xielu[4] = {0.8f, 0.6f, 0.5f, -1e-6f};
    infer__act_args a;
    infer__weight divide;
    infer__tensor x, up, y;
    int32_t kind, with, i, j, g;
    float *v;
    for (kind = 0; kind <= INFER__ACT_LINEAR; kind++)
        for (with = 0; with < 4; with++) {
            if (!infer__probe_has(k->uses->acts, kind) || !infer__probe_new(k)) continue;
            x = infer__probe_tensor(k, 2, 257, 1, 2);
            up = infer__probe_tensor(k, 2, 257, 0, 3);
            y = infer__probe_tensor(k, 2, 257, 2, 0);
            divide = infer__probe_vector(k, 257);
            for (j = 0; j < 257; j++) {
                v = (float *)((char *)k->at[0].host + divide.offset) + j;
                *v += *v < 0 ? -0.5f : 0.5f;
                for (i = 0; i < 2; i++) infer__row(&x, i)[j] *= 12;
            }
            infer__row(&x, 0)[0] = -200; /* exp overflows */
            infer__row(&x, 1)[256] = 200;
            for (i = 0; i < 2; i++) /* 0.5 x (1 + erf x) is a difference: measured by x */
                for (j = 0; j < 257; j++) {
                    float t = 1 + fabsf(infer__row(&x, i)[j]);
                    k->sizes[i * 257 + j] = 2 * (kind == INFER__ACT_RELU2 || kind == INFER__ACT_XIELU ? t * t : t);
                }
            memset(&a, 0, sizeof a);
            a.kind = kind;
            a.divide = with & 2 ? &divide : NULL;
            a.limit = kind == INFER__ACT_GELU_SIGMOID && with & 1 ? 7.0f : 0.0f; /* as experts of gpt-oss */
            a.up_add = a.limit > 0 ? 1.0f : 0.0f;
            if (kind == INFER__ACT_SILU && with == 3) { /* Step 3.5 */
                a.limit = 4;
                a.limit_after = 1;
            }
            memcpy(a.xielu, xielu, sizeof a.xielu);
            infer__probe_send(k);
            for (g = 0; g < 2; g++) {
                a.x = infer__probe_on(k, &x, g);
                a.y = infer__probe_on(k, &y, g);
                if (with & 1) a.up = infer__probe_on(k, &up, g);
                k->side[g].ops->act(&k->side[g], &a);
            }
            infer__probe_fetch(k);
            infer__probe_near(k, &y, 0, k->sizes, INFER__PROBE_ROUNDING, 0);
            infer__probe_end(k, "%s%s%s, 2 rows of 257", names[kind], with & 1 ? ", times up" : "",
                             with & 2 ? ", divided" : "");
        }
}

static void infer__probe_add(infer__prober *k) {
    infer__add_args a;
    infer__tensor x, y;
    int32_t g;
    if (!infer__probe_new(k)) return;
    x = infer__probe_tensor(k, 3, 300, 1, 2);
    y = infer__probe_tensor(k, 3, 300, 3, 1);
    a.scale = 0.3f;
    infer__probe_send(k);
    for (g = 0; g < 2; g++) {
        a.x = infer__probe_on(k, &x, g);
        a.y = infer__probe_on(k, &y, g);
        k->side[g].ops->add(&k->side[g], &a);
    }
    infer__probe_fetch(k);
    infer__probe_near(k, &y, 0.3, NULL, INFER__PROBE_ROUNDING, 0);
    infer__probe_end(k, "3 rows of 300");
}

static void infer__probe_map(infer__prober *k) {
    static const float range[] = {-0.5f, 3};
    infer__map_args a;
    infer__tensor x;
    int32_t g, with;
    memset(&a, 0, sizeof a);
    for (with = 0; with < 5; with++) {
        if (!infer__probe_new(k)) return;
        x = infer__probe_tensor(k, 3, 300, 1, 2);
        a.scale = 7;
        a.cap = with & 1 ? 3.0f : 0;
        a.clamp = with & 2 ? 2.0f : 0;
        a.range = with & 4 ? range : NULL;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            k->side[g].ops->map(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &x, 1, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "3 rows of 300, scaled%s%s", with & 1 ? ", soft-capped" : "", with & 6 ? ", clamped" : "");
    }
}

static void infer__probe_get_rows(infer__prober *k) {
    static const int32_t rows[] = {1, 2, 6};
    infer__get_rows_args a;
    infer__tensor x, y;
    int32_t g;
    if (!infer__probe_new(k)) return;
    x = infer__probe_tensor(k, 7, 259, 2, 1);
    y = infer__probe_tensor(k, 3, 259, 0, 3);
    infer__probe_pass(k, 7);
    k->side[0].pass.n_out = 3;
    memcpy(k->side[0].pass.out, rows, sizeof rows);
    infer__probe_send(k);
    for (g = 0; g < 2; g++) {
        a.x = infer__probe_on(k, &x, g);
        a.y = infer__probe_on(k, &y, g);
        k->side[g].ops->get_rows(&k->side[g], &a);
    }
    infer__probe_fetch(k); /* the same bits */
    k->limit = INFER__PROBE_ROUNDING;
    infer__probe_end(k, "3 of 7 rows of 259");
}

/* axes 1: each pair by the position on its axis, of heads in two blocks. */
static void infer__probe_rope_case(infer__prober *k, int32_t kind, int axes) {
    static const int32_t pos[] = {0, 1, 17, 1000};
    static const uint8_t of[] = {0, 1, 2, 2, 1, 0, 1, 1, 2, 0, 0, 1, 2, 0, 1, 2};
    int32_t axis[3][INFER__COUNT(pos)];
    float host[2 * INFER__PROBE_HALF];
    infer__pass *p = &k->side[0].pass;
    infer__rope_args a;
    infer__tensor x;
    infer__buf freq[2];
    int32_t g, i;
    x = infer__probe_tensor(k, 4, 5 * 35, 1, 3);
    infer__probe_pass(k, 4);
    for (i = 0; i < 4; i++) {
        p->pos[i] = pos[i];
        p->seq[i] = i % 2;
        for (g = 0; g < 3; g++) axis[g][i] = pos[i] + g * (3 + i);
    }
    for (g = 0; g < 3 && axes; g++) p->axis[g] = axis[g];
    p->axes = of;
    p->n_axes = (int32_t)sizeof of;
    if (infer__probe_freq(k, 16, host, &freq[0], &freq[1])) {
        memset(&a, 0, sizeof a);
        a.n_head = 5;
        a.dim = 35;
        a.n_rot = 32;
        a.kind = kind;
        a.scale = 1.25f;
        a.axes = axes ? of : NULL;
        a.blocks = 2 * axes;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            a.freq = &freq[g];
            k->side[g].ops->rope(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        k->side[1].ops->release(&k->side[1], &freq[1]);
    }
    p->axis[0] = NULL;
    infer__probe_near(k, &x, 1, NULL, INFER__PROBE_ROUNDING, 0);
    infer__probe_end(k, "%s, 5 heads of 35, 32 of them rotated%s", kind == INFER__ROPE_PAIRS ? "pairs" : "halves",
                     axes ? ", by axes" : "");
}

static void infer__probe_rope(infer__prober *k) {
    int32_t kind, axes;
    for (kind = INFER__ROPE_PAIRS; kind <= INFER__ROPE_HALVES; kind++)
        for (axes = 0; axes < 2; axes++)
            if (infer__probe_has(k->uses->ropes, kind) && infer__probe_new(k)) infer__probe_rope_case(k, kind, axes);
}

/* The largest, one and several of them: the same bits. */
static void infer__probe_top(infer__prober *k) {
    static const struct { int16_t n, k; } cases[] = {{1030, 1}, {2100, 40}, {33, 7}};
    infer__top_args a;
    infer__tensor x, y, scratch;
    int32_t g, j;
    size_t i;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        const int32_t n = cases[i].n;
        if (!infer__probe_new(k)) return;
        x = infer__probe_tensor(k, 2, n, 3, 1);
        y = infer__probe_tensor(k, 2, 2 * cases[i].k, 1, 2);
        scratch = infer__probe_tensor(k, 1, (int32_t)infer__top_scratch(n, cases[i].k), 0, 5);
        for (j = 0; j < n; j += 3) infer__row(&x, 1)[j] = 0.75f; /* lower columns first among equals */
        a.k = cases[i].k;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            a.y = infer__probe_on(k, &y, g);
            a.scratch = infer__probe_on(k, &scratch, g);
            k->side[g].ops->top(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_ignore(k, &scratch);
        k->limit = INFER__PROBE_ROUNDING;
        infer__probe_end(k, "the %d largest of 2 rows of %d", (int)cases[i].k, (int)n);
    }
}

/* ---- programs of storage types ----------------------------------------------------------------------------------- */

/* Columns of so many units: a block, or 40 single values, as tensor cores want them; a single one of these is 33. */
static int32_t infer__probe_cols(const infer__prober *k, int32_t units) {
    if (k->type->values == 1) return units > 1 ? units * 40 : 33;
    return INFER__MIN(units, INFER__PROBE_COLS / k->type->values) * k->type->values;
}

/* Precision of x in a product on the device: full, or as halves (1) or BF16 (2). */
static int infer__probe_halves(const infer__prober *k, const infer__weight *w, int32_t n, int32_t rows_of_x) {
    const infer__ctx *c = &k->side[1];
    const int few =
        w->type->values == 1 && infer__gpu_tiles(c, w, rows_of_x); /* those are halves from 9 rows on, too */
    if (n <= INFER__GPU_FEW) return 0;
    if (!few && !infer__gpu_has_mma(c, w, rows_of_x) && infer__gpu_matrix_kernel(c, w, rows_of_x, 0) < 0) return 0;
    return w->type->id == INFER__GPU_BF16 ? 2 : 1;
}

/* Make the CPU quantise x to 8 bits exactly where the device does. */
static void infer__probe_as(infer__prober *k, const infer__weight *w, int32_t n, int32_t rows_of_x) {
    k->side[0].exact = n > INFER__GPU_FEW || w->type->values == 1 || !infer__gpu_dots(&k->side[1], w, rows_of_x);
}

static void infer__probe_embed(infer__prober *k) {
    static const int32_t ids[] = {3, 12, -1, 0, 5};
    infer__embed_args a;
    infer__weight table, places;
    infer__tensor y;
    int32_t i, j, g, with, cols;
    for (with = 0; with < 2; with++) {
        if (!infer__probe_new(k)) return;
        cols = infer__probe_cols(k, with + 1);
        y = infer__probe_tensor(k, 5, cols, 1, 3);
        table = infer__probe_weight(k, k->type, 13, cols);
        places = infer__probe_weight(k, k->type, 5,
                                     cols); /* not F32: a model without such weights has no program for them */
        infer__probe_pass(k, 5);
        memcpy(k->side[0].pass.ids, ids, sizeof ids);
        for (i = 0; i < 5; i++) { /* a block's values are differences: measured by the largest of the row */
            double most = 1;
            k->type->decode((const uint8_t *)table.data + (uint64_t)INFER__MAX(ids[i], 0) * table.row_bytes, k->line,
                            cols);
            for (j = 0; j < cols; j++) most = INFER__MAX(most, fabsf(k->line[j]));
            k->type->decode((const uint8_t *)places.data + (uint64_t)i * places.row_bytes, k->line, cols);
            for (j = 0; j < cols && with; j++) most = INFER__MAX(most, fabsf(k->line[j]));
            for (j = 0; j < cols; j++) k->sizes[i * cols + j] = (float)(2 * most + 1);
        }
        memset(&a, 0, sizeof a);
        a.table = &table;
        a.positions = with ? &places : NULL;
        a.scale = 1.5f;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.y = infer__probe_on(k, &y, g);
            k->side[g].ops->embed(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &y, 0, k->sizes, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "5 rows of %d%s", (int)cols, with ? ", with positions" : "");
    }
}

/* n rows of x, up to three matrices of `rows` rows; bias: a bit each. wide: tiles of tensor cores. */
typedef struct infer__probe_product {
    int16_t n, n_w, rows, units;
    int8_t bias, norm, act, add, wide;
} infer__probe_product;

static const infer__probe_product INFER__PROBE_FEW[] = { /* rows that matrices are read once for */
    {1, 1, 5, 1, 1, 0, 0, 0, 0}, {1, 2, 33, 4, 0, 0, 1, 0, 0}, {2, 1, 33, 4, 0, 0, 0, 1, 0},
    {3, 3, 7, 2, 5, 0, 0, 0, 0}, {3, 1, 33, 2, 1, 1, 0, 0, 0}, {8, 1, 33, 1, 0, 0, 1, 0, 0},
    {1, 3, 7, 16, 5, 0, 0, 0, 0}, {1, 2, 33, 16, 2, 1, 1, 0, 0}, {1, 1, 70, 16, 1, 1, 0, 1, 0}}; /* gpu_one.c */
static const infer__probe_product INFER__PROBE_MANY[] = {
    {9, 1, 33, 1, 1, 0, 0, 0, 0},   {20, 3, 70, 3, 5, 0, 0, 0, 0}, {37, 2, 70, 2, 3, 1, 1, 0, 0},
    {66, 2, 70, 2, 3, 0, 1, 0, 0}, {70, 1, 132, 3, 0, 0, 0, 1, 1}, {70, 1, 33, 0, 1, 0, 0, 0, 0},
    {70, 1, 33, 0, 0, 0, 0, 1, 1}, {70, 2, 72, 0, 3, 0, 1, 0, 1}};

/* Sizes of the terms of y: of the products, of both factors where they are multiplied. */
static void infer__probe_product_sizes(infer__prober *k, const infer__probe_product *p, const infer__weight *w,
                                       const infer__tensor *x, int32_t j, int32_t kind) {
    float gate[160];
    int32_t i, r;
    for (i = 0; i < p->n; i++) {
        float *sizes = k->sizes + (int64_t)i * p->rows;
        infer__probe_dots(k, &w[j], 0, p->rows, infer__row(x, i), sizes);
        if (p->act) infer__probe_dots(k, &w[p->n_w - 1], 0, p->rows, infer__row(x, i), gate);
        for (r = 0; r < p->rows; r++) {
            sizes[r] += 1;
            if (p->act) sizes[r] *= (4 + gate[r]) * (kind == INFER__ACT_RELU2 ? 4 + gate[r] : 1);
        }
    }
}

static void infer__probe_product_case(infer__prober *k, const infer__probe_product *p) {
    const int32_t cols = p->units ? infer__probe_cols(k, p->units) : 1024; /* enough to share out */
    const int32_t kind = infer__probe_kind(k->uses->acts & ((1u << INFER__ACTS_TAKEN) - 1), p->n);
    const int32_t whole = p->wide && p->rows % 4 == 0 ? 4 : 0; /* results at multiples of 16 bytes */
    infer__tensor before, x, to, y[3], *result;
    infer__weight w[3], b[3], scale;
    infer__matmul_args a;
    infer__norm_args norm;
    infer__act_args act;
    infer__add_args add;
    int32_t j, g;
    int halves, fused, tiles;
    if (!infer__probe_new(k)) return;
    before = infer__probe_tensor(k, p->n, cols, 4, 4);
    x = infer__probe_tensor(k, p->n, cols, 0, 4);
    to = infer__probe_tensor(k, p->n, p->rows, whole ? whole : 3, whole ? whole : 2);
    scale = infer__probe_vector(k, cols);
    memset(&a, 0, sizeof a);
    memset(&norm, 0, sizeof norm);
    memset(&act, 0, sizeof act);
    for (j = 0; j < p->n_w; j++) {
        y[j] = infer__probe_tensor(k, p->n, p->rows, whole ? whole : 1 + j, whole ? whole : j);
        w[j] = infer__probe_weight(k, k->type, p->rows, cols);
        b[j] = infer__probe_vector(k, p->rows);
        a.w[j] = &w[j];
        if (p->bias >> j & 1) a.b[j] = &b[j];
    }
    a.n_w = p->n_w;
    norm.weight = &scale;
    norm.kind = infer__probe_kind(k->uses->norms, p->n);
    norm.n_groups = 1;
    norm.eps = 1e-5f;
    act.kind = kind;
    add.scale = 0.75f;
    if (p->norm) a.norm = &norm;
    a.keep = p->n == 1 && p->add; /* the norm's result is needed, too */
    if (p->act) a.act = &act;
    if (p->add) a.add = &add;
    infer__probe_pass(k, 1);
    infer__probe_send(k);
    tiles = w[0].type->values != 1 && infer__gpu_tiles(&k->side[1], &w[0], p->n) > 0;
    halves = tiles ? 0 : infer__probe_halves(k, &w[0], p->n, p->n);
    infer__probe_as(k, &w[0], p->n, p->n);
    if (tiles) k->side[0].exact = 0;
    for (g = 0; g < 2; g++) {
        norm.x = infer__probe_on(k, &before, g);
        norm.y = a.x = infer__probe_on(k, &x, g);
        for (j = 0; j < p->n_w; j++) a.y[j] = infer__probe_on(k, &y[j], g);
        act.x = a.y[p->n_w - 1];
        memset(&act.up, 0, sizeof act.up);
        if (p->n_w == 2) act.up = a.y[0];
        act.y = add.x = a.y[0];
        add.y = infer__probe_on(k, &to, g);
        infer__matmul(&k->side[g], &a);
    }
    infer__probe_fetch(k);
    fused = p->norm && !k->side[0].exact; /* a last digit of the norm may change the rounding */
    result = p->add ? &to : y;
    for (j = 0; j < (p->act || p->add ? 1 : p->n_w); j++) {
        infer__probe_product_sizes(k, p, w, &x, j, kind);
        infer__probe_near(k, &result[j], 0, k->sizes, fused ? 1e-2 : INFER__PROBE_LIMITS[halves],
                          fused ? 3e-5 : INFER__PROBE_NMSES[halves]);
    }
    if (a.keep && p->norm) infer__probe_near(k, &x, 2, NULL, INFER__PROBE_ROUNDING, 0);
    infer__probe_ignore(k, &x); /* what is only passed between fused ops need not be written */
    for (j = 0; j < p->n_w; j++) infer__probe_ignore(k, &y[j]);
    infer__probe_end(k, "%d row%s of %d, %d matri%s of %d rows%s%s%s%s", (int)p->n, p->n == 1 ? "" : "s", (int)cols,
                     (int)p->n_w, p->n_w == 1 ? "x" : "ces", (int)p->rows, p->bias ? ", bias" : "",
                     p->norm ? ", norm" : "", p->act ? ", activation" : "", p->add ? ", added" : "");
}

static void infer__probe_few(infer__prober *k) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__PROBE_FEW); i++) infer__probe_product_case(k, &INFER__PROBE_FEW[i]);
}

/* The tile size of tensor cores follows from the product's size: here the case sets it. */
static void infer__probe_many(infer__prober *k) {
    uint64_t wide = k->side[1].run->mma_wide;
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__PROBE_MANY); i++) {
        const infer__probe_product *p = &INFER__PROBE_MANY[i];
        if (p->wide && (k->side[1].exact || !infer__gpu_find(k->side[1].run, INFER__MODULE_MMA, k->type->id))) continue;
        k->side[1].run->mma_wide = p->wide ? 0 : UINT64_MAX;
        infer__probe_product_case(k, p);
    }
    k->side[1].run->mma_wide = wide;
}

/* n rows, each with `used` of the experts; down: a row of x for each choice, summed by weight; gate: with an
 * activation. */
typedef struct infer__probe_moe { int16_t n, experts, used, rows, units, down, gate; } infer__probe_moe;
static const infer__probe_moe INFER__PROBE_EXPERTS[] = {
    {1, 5, 2, 9, 1, 0, 0},   {1, 3, 2, 17, 2, 0, 1}, {1, 4, 3, 33, 3, 1, 0}, /* gpu_one.c */
    {2, 3, 2, 33, 4, 1, 0},  {11, 3, 2, 33, 2, 0, 0}, {19, 4, 3, 70, 1, 1, 0}};

static void infer__probe_experts_case(infer__prober *k, const infer__probe_moe *m) {
    const int32_t cols = infer__probe_cols(k, m->units), pairs = m->n * m->used, x_rows = m->down ? pairs : m->n;
    infer__tensor x, y, ids, weights, gates;
    infer__weight w, gate;
    infer__moe_matmul_args a, b;
    infer__act_args act;
    float terms[160], factors[160];
    int32_t t, j, r, g, id;
    int halves;
    if (!infer__probe_new(k)) return;
    x = infer__probe_tensor(k, x_rows, cols, 4, 4);
    y = infer__probe_tensor(k, m->down ? m->n : pairs, m->rows, 3, 1);
    ids = infer__probe_tensor(k, m->n, m->used, 2, 0);
    weights = infer__probe_tensor(k, m->n, m->used, 1, 3);
    w = infer__probe_weight(k, k->type, m->experts * m->rows, cols);
    gates = y;
    gate = w;
    if (m->gate) {
        gates = infer__probe_tensor(k, pairs, m->rows, 3, 1);
        gate = infer__probe_weight(k, k->type, m->experts * m->rows, cols);
    }
    memset(k->sizes, 0, (size_t)(y.rows * m->rows) * sizeof *k->sizes);
    for (t = 0; t < m->n; t++)
        for (j = 0; j < m->used; j++) {
            id = (t * 7 + j) % m->experts;
            memcpy(infer__row(&ids, t) + j, &id, sizeof id);
            infer__probe_dots(k, &w, (int64_t)id * m->rows, m->rows,
                              infer__row(&x, m->down ? t * m->used + j : t), terms);
            if (m->gate)
                infer__probe_dots(k, &gate, (int64_t)id * m->rows, m->rows, infer__row(&x, t), factors);
            for (r = 0; r < m->rows; r++)
                k->sizes[(m->down ? t : t * m->used + j) * m->rows + r] +=
                    m->gate ? (1 + terms[r]) * (4 + factors[r]) : terms[r];
        }
    memset(&a, 0, sizeof a);
    a.w = &w;
    a.rows = m->rows;
    a.n_used = m->used;
    a.per_expert_x = m->down;
    b = a;
    b.w = &gate;
    memset(&act, 0, sizeof act); /* SiLU */
    infer__probe_pass(k, 1);
    infer__probe_send(k);
    halves = infer__probe_halves(k, &w, m->n, x_rows);
    infer__probe_as(k, &w, m->n, x_rows);
    for (g = 0; g < 2; g++) {
        a.x = infer__probe_on(k, &x, g);
        a.y = infer__probe_on(k, &y, g);
        a.ids = infer__probe_on(k, &ids, g);
        if (m->down) a.weights = infer__probe_on(k, &weights, g);
        if (m->gate) {
            b.x = a.x;
            b.ids = a.ids;
            b.y = act.x = infer__probe_on(k, &gates, g);
            act.y = act.up = a.y;
            a.gate = &b;
            a.act = &act;
        }
        infer__moe_matmul(&k->side[g], &a);
    }
    infer__probe_fetch(k);
    infer__probe_near(k, &y, 0, k->sizes, INFER__PROBE_LIMITS[halves], INFER__PROBE_NMSES[halves]);
    if (m->gate) infer__probe_ignore(k, &gates); /* what is only passed between fused ops need not be written */
    infer__probe_end(k, "%d row%s of %d, %d of %d experts of %d rows%s", (int)m->n, m->n == 1 ? "" : "s", (int)cols,
                     (int)m->used, (int)m->experts, (int)m->rows, m->down ? ", summed up" : m->gate ? ", gated" : "");
}

static void infer__probe_experts(infer__prober *k) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__PROBE_EXPERTS); i++) infer__probe_experts_case(k, &INFER__PROBE_EXPERTS[i]);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct infer__probe_op {
    const char *name;
    int32_t kind;  /* of the program: INFER__MODULE_* */
    uint32_t when; /* INFER__USE_*: only for types, or models, that are used so; 0 = always */
    int32_t exact; /* 1: products as they are with infer_model_params.exact are another case */
    void (*run)(infer__prober *k);
} INFER__PROBES[] = {
    {"norm", INFER__MODULE_BASE, 0, 0, infer__probe_norm},
    {"activation", INFER__MODULE_BASE, 0, 0, infer__probe_act},
    {"add", INFER__MODULE_BASE, 0, 0, infer__probe_add},
    {"map", INFER__MODULE_BASE, 0, 0, infer__probe_map},
    {"rows", INFER__MODULE_BASE, 0, 0, infer__probe_get_rows},
    {"rope", INFER__MODULE_BASE, 0, 0, infer__probe_rope},
    {"largest", INFER__MODULE_BASE, 0, 0, infer__probe_top},
    {"convolution", INFER__MODULE_BASE, INFER__USE_CONV, 0, infer__probe_conv},
    {"state space", INFER__MODULE_BASE, INFER__USE_SSM, 0, infer__probe_ssm},
    {"delta rule", INFER__MODULE_BASE, INFER__USE_DELTA, 0, infer__probe_delta},
    {"decays of keys", INFER__MODULE_BASE, INFER__USE_KEYS, 0, infer__probe_keys},
    {"RWKV", INFER__MODULE_BASE, INFER__USE_WKV, 0, infer__probe_wkv},
    {"streams", INFER__MODULE_BASE, INFER__USE_STREAMS, 0, infer__probe_streams},
    {"router", INFER__MODULE_BASE, INFER__USE_EXPERTS, 0, infer__probe_route},
    {"biases of experts", INFER__MODULE_BASE, INFER__USE_EXPERTS, 0, infer__probe_moe_bias},
    {"embedding", INFER__MODULE_TYPE, INFER__USE_TABLE, 0, infer__probe_embed},
    {"1 to 8 rows", INFER__MODULE_TYPE, INFER__USE_MATRIX, 1, infer__probe_few},
    {"many rows", INFER__MODULE_TYPE, INFER__USE_MATRIX, 1, infer__probe_many},
    {"experts", INFER__MODULE_TYPE, INFER__USE_EXPERTS, 1, infer__probe_experts},
    {"attention", INFER__MODULE_KV, 0, 1, infer__probe_attention},
    {"lists of positions", INFER__MODULE_KV, INFER__USE_LISTS, 0, infer__probe_lists},
    {"entries", INFER__MODULE_KV, INFER__USE_LISTS, 0, infer__probe_entries},
};

/* Report a finished row. The first failure is the result of the whole check. */
static void infer__probe_tell(infer__prober *k, const char *program, const char *check) {
    k->row.program = program;
    k->row.check = check;
    k->row.kernels = k->kernels;
    k->row.input = k->input;
    k->row.message = k->message;
    if (k->row.verdict != INFER_KERNEL_OK && k->verdict == INFER_KERNEL_OK && !k->optional) {
        k->verdict = k->row.verdict;
        if (k->row.verdict == INFER_KERNEL_NOT_BUILT) infer__format(k->why, sizeof k->why, "%s", k->message);
        else
            infer__format(k->why, sizeof k->why, "kernel %s (program %s, check \"%s\": %s) %s", k->kernels, program,
                          check, k->input, k->message);
    }
    if (k->tell && k->tell(k->user, &k->row)) k->over = k->stopped = 1;
}

static void infer__probe_clear(infer__prober *k) {
    memset(&k->row, 0, sizeof k->row);
    k->nearness = -1;
    k->input[0] = k->kernels[0] = k->message[0] = 0;
}

/* The rows of a program: of the base, of a cache type, of a storage type that is used so. */
static void infer__probe_program(infer__prober *k, int32_t module, uint32_t use) {
    static const char *const exactly[] = {"", ", exact"};
    const infer__module_row *m = infer__module_at(module);
    char name[40];
    size_t i;
    int exact;
    memset(k->passed, 0, sizeof k->passed);
    for (i = 0; i < INFER__COUNT(INFER__PROBES); i++)
        for (exact = 0; exact < 2; exact++) {
            const struct infer__probe_op *op = &INFER__PROBES[i];
            if (k->over || op->kind != m->kind || (op->when && !(op->when & use))) continue;
            if (op->exact ? !(k->uses->exact >> exact & 1) : exact) continue;
            k->side[1].exact = exact;
            infer__probe_clear(k);
            op->run(k);
            infer__format(name, sizeof name, "%s%s", op->name, op->exact ? exactly[exact] : "");
            if (k->nearness >= 0) infer__probe_tell(k, m->name, name);
        }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Bytes of a case. */
static uint64_t infer__probe_room(const infer__gpu_uses *u) {
    uint64_t room = INFER__PROBE_ROOM, n;
    int32_t i;
    for (i = 0; i < u->n_heads; i++) {
        const infer__gpu_heads *h = &u->heads[i];
        n = 2 * INFER__PROBE_LEN * (uint64_t)h->n_head_kv * (uint64_t)(h->dim_k + h->dim_v) +
            40 * (uint64_t)h->n_head * (uint64_t)(h->dim_k + h->dim_v) + 4096;
        room = INFER__MAX(room, n * sizeof(float));
    }
    return room;
}

static infer_result infer__probe_memory(infer__prober *k, infer_error *err) {
    infer__pass *p = &k->side[0].pass;
    const int32_t rows = INFER__PROBE_ROWS, tables = INFER__CACHE_GROUPS * 2 * INFER__PROBE_PAGES;
    int32_t i;
    k->room = infer__probe_room(k->uses);
    p->max_pages = INFER__PROBE_PAGES;
    p->n_seq = 2;
    p->block_len = 8 * (int64_t)rows + 2 * 4 + INFER__PROBE_HALF + tables; /* with cells, ends, sources and axes */
    p->block = (int32_t *)infer__calloc(k->mem, (uint64_t)p->block_len, sizeof *p->block);
    k->at[0].host = infer__alloc(k->mem, k->room + INFER__OVERREAD);
    k->at[0].bytes = k->room;
    k->got = (uint8_t *)infer__alloc(k->mem, k->room);
    k->sizes = (float *)infer__calloc(k->mem, 160 * 160 + INFER__PROBE_COLS, sizeof *k->sizes);
    if (!p->block || !k->at[0].host || !k->got || !k->sizes)
        return infer__error(err, INFER_ERR_MEMORY, "no memory to check a GPU");
    k->line = k->sizes + 160 * 160;
    p->ids = p->block;
    p->pos = p->ids + rows;
    p->seq = p->pos + rows;
    p->out = p->seq + rows;
    p->extended = p->out + rows;
    p->extended[1] = 1;
    for (i = 0; i < INFER__CACHE_GROUPS; i++) p->pages[i] = p->extended + 2 + i * 2 * INFER__PROBE_PAGES;
    for (i = 0; i < tables; i++) p->pages[0][i] = -1;
    for (i = 0; i < 2 * ((INFER__PROBE_LEN + INFER__PAGE - 1) / INFER__PAGE); i++) /* sequences have pages in turn */
        p->pages[0][i % 2 * INFER__PROBE_PAGES + i / 2] = p->pages[1][i % 2 * INFER__PROBE_PAGES + i / 2] = i;
    return infer__gpu_alloc(k->gpu, &k->at[1], k->room, err);
}

/* Both contexts, with a cache of a type. */
static infer_result infer__probe_open(infer__prober *k, int32_t kv_type, infer_error *err) {
    infer__ctx *cpu = &k->side[0], *gpu = &k->side[1];
    infer__pass pass = cpu->pass;
    infer__needs n;
    memset(k->side, 0, sizeof k->side);
    cpu->mem = gpu->mem = k->mem;
    cpu->ops = &infer__cpu_ops;
    gpu->ops = &infer__gpu_ops;
    cpu->pool = k->pool;
    cpu->pass = gpu->pass = pass;
    infer__cpu_select(cpu, 0);
    gpu->gpu = k->gpu;
    gpu->kv_type = kv_type;
    memset(&n, 0, sizeof n);
    n.block_len = (uint64_t)pass.block_len;
    n.rows = 80;
    n.cols = INFER__PROBE_COLS;
    n.cells = INFER__PROBE_LEN;
    n.head_values = INFER__PROBE_MOST_HEADS * (INFER__MAX_HEAD_DIM + 2);
    n.n_expert = 4;
    n.n_used = 3;
    n.sum_cols = 70;
    n.index_sets = 2;
    n.head = INFER__MAX_HEAD_DIM;
    if (!cpu->ops->prepare(cpu, &n))
        return infer__error(err, INFER_ERR_MEMORY, "no memory to check a GPU");
    return gpu->ops->prepare(gpu, &n) ? INFER_OK
                                                         : infer__error(err, gpu->error.code, "%s", gpu->error.message);
}

static void infer__probe_close(infer__prober *k) {
    int g;
    for (g = 0; g < 2; g++)
        if (k->side[g].ops) k->side[g].ops->finish(&k->side[g]);
}

/* Report a program that was not built; optional: a special one, replaced by the generic one. */
static void infer__probe_not_built(infer__prober *k, int32_t module, int optional, const char *why) {
    infer__probe_clear(k);
    k->row.verdict = INFER_KERNEL_NOT_BUILT;
    k->optional = optional;
    infer__format(k->message, sizeof k->message, "%s", why);
    infer__probe_tell(k, infer__module_at(module)->name, "build");
    k->optional = 0;
}

/* Compile what is to be checked. Without `tell` a program that cannot be is an error. */
static infer_result infer__probe_build(infer__prober *k, infer_error *err) {
    const infer__quant *q;
    infer_error why;
    infer_result r = infer__gpu_use_base(k->gpu, err);
    int32_t i;
    for (i = 0; !r && !k->over && (q = infer__quant_row(i)) != NULL; i++) {
        if (!k->uses->types[i]) continue;
        infer__error_clear(&why);
        r = infer__gpu_use_type(k->gpu, q, &why);
        if (!r) continue;
        if (!k->tell || r == INFER_ERR_MEMORY) return infer__error(err, r, "%s", why.message);
        infer__probe_not_built(k, infer__gpu_module(INFER__MODULE_TYPE, q->id), 0, why.message);
        r = INFER_OK;
    }
    for (i = 0; k->tell && !r && !k->over && i < INFER__MODULE_COUNT; i++)
        if (infer__gpu_lacks(k->gpu, i))
            infer__probe_not_built(k, i, 1, "the device's compiler refused it; the generic program runs instead");
    return r;
}

static void infer__probe_types(infer__prober *k) {
    const infer__quant *q;
    int32_t i, base = infer__gpu_module(INFER__MODULE_BASE, 0);
    uint32_t all = k->uses->cells;
    for (i = 0; i < INFER__QUANTS_MAX; i++) all |= k->uses->types[i];
    infer__probe_program(k, base, all);
    for (i = 0; !k->over && (q = infer__quant_row(i)) != NULL; i++) {
        k->type = q;
        if (k->uses->types[i] && infer__gpu_has_program(k->gpu, INFER__MODULE_TYPE, q->id))
            infer__probe_program(k, infer__gpu_module(INFER__MODULE_TYPE, q->id), k->uses->types[i]);
    }
}

static infer_result infer__probe_run(infer__prober *k, infer_error *err) {
    infer_result r = infer__probe_memory(k, err);
    int32_t kv, first = 1;
    if (!r) r = infer__pool_create(&k->pool, k->mem, 1, NULL, NULL, NULL, err);
    if (!r) r = infer__probe_build(k, err);
    for (kv = INFER_KV_F32; kv <= INFER_KV_Q4_0 && !r && !k->over; kv++) {
        infer_error why;
        if (!(k->uses->kv_types >> kv & 1)) continue;
        infer__error_clear(&why);
        r = infer__probe_open(k, kv, &why);
        if (!r && first) infer__probe_types(k);
        if (!r) first = 0;
        if (!r) infer__probe_program(k, infer__gpu_module(INFER__MODULE_KV, kv), k->uses->cells);
        infer__probe_close(k);
        if (!r) continue;
        if (!k->tell || r == INFER_ERR_MEMORY || infer__gpu_has_program(k->gpu, INFER__MODULE_KV, kv))
            return infer__error(err, r, "%s", why.message);
        infer__probe_not_built(k, infer__gpu_module(INFER__MODULE_KV, kv), 0, why.message);
        r = INFER_OK;
    }
    return r;
}

static infer_result infer__gpu_check(infer__gpu *g, const infer__gpu_uses *u, infer__mem *mem, infer_kernel_fn tell,
                                     void *user, int32_t *verdict, infer_error *err) {
    infer__prober *k = (infer__prober *)infer__calloc(mem, 1, sizeof *k);
    infer_result r;
    *verdict = INFER_KERNEL_OK;
    infer__gpu_want(g, u);
    infer__gpu_blamed(g)->n = 0;
    if (!k) return infer__error(err, INFER_ERR_MEMORY, "no memory to check a GPU");
    k->gpu = g;
    k->uses = u;
    k->mem = mem;
    k->tell = tell;
    k->user = user;
    r = infer__probe_run(k, err);
    *verdict = k->verdict;
    if (!r && k->stopped) r = infer__error(err, INFER_CANCELLED, "cancelled");
    if (!r && k->verdict != INFER_KERNEL_OK) r = infer__error(err, INFER_ERR_DEVICE, "%s", k->why);
    infer__gpu_free(g, &k->at[1]);
    infer__pool_destroy(k->pool);
    infer__free(mem, k->side[0].pass.block);
    infer__free(mem, k->at[0].host);
    infer__free(mem, k->got);
    infer__free(mem, k->sizes);
    infer__free(mem, k);
    return r;
}

static void infer__gpu_uses_all(infer__gpu_uses *u) {
    static const infer__gpu_heads heads[] = {
        {8, 2, 64, 64, 0, 0, INFER__ROPE_HALVES, 0, 0.15f, 0, 0, 0, 0},   {3, 3, 33, 17, 1, 1, INFER__ROPE_PAIRS, 0, 0.2f, 0, 0, 0, 0},
        {5, 1, 128, 96, 0, 0, INFER__ROPE_NONE, 0, 0.1f, 8, 2, 0.5f, 0}, {2, 1, 256, 256, 1, 0, INFER__ROPE_HALVES, 0, 0.1f, 0, 0, 0, 0},
        {10, 1, 128, 128, 0, 1, INFER__ROPE_NONE, 0, 0.1f, 0, 0, 0, 0},
        {9, 1, 200, 136, 0, 0, INFER__ROPE_NONE, 1, 0.1f, 0, 0, 0, 0},
        {4, 2, 64, 64, 1, 0, INFER__ROPE_NONE, 0, 0.1f, 0, 0, 0, INFER__SEES_AROUND},
        {4, 2, 64, 64, 1, 0, INFER__ROPE_NONE, 0, 0.1f, 0, 0, 0, INFER__SEES_LATER},
        {4, 1, 40, 40, 0, 0, INFER__ROPE_NONE, 0, 0.1f, 0, 0, 0.3f, INFER__SEES_LATER},
        {3, 3, 40, 40, 0, 0, INFER__ROPE_NONE, 0, 0.2f, 0, 0, 0, INFER__SEES_AROUND | INFER__SEES_NEAR},
        {6, 3, 33, 20, 0, 0, INFER__ROPE_NONE, 0, 0.2f, 0, 0, 0, INFER__SEES_SOURCE}};
    const infer__quant *q;
    int32_t i;
    memset(u, 0, sizeof *u);
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++)
        if (infer__gpu_has_type(q)) u->types[i] = INFER__USE_MATRIX | INFER__USE_TABLE | INFER__USE_EXPERTS;
    for (i = INFER_KV_F32; i <= INFER_KV_Q4_0; i++) u->kv_types |= 1u << i;
    u->exact = 3;
    u->norms = 3;
    u->acts = ((1u << INFER__ACTS) - 1) | 1u << INFER__ACT_LINEAR;
    u->ropes = 1u << INFER__ROPE_PAIRS | 1u << INFER__ROPE_HALVES;
    u->cells = INFER__USE_CONV | INFER__USE_SSM | INFER__USE_DELTA | INFER__USE_STREAMS | INFER__USE_KEYS |
               INFER__USE_WKV | INFER__USE_LISTS;
    u->n_expert = 65;
    u->n_used = 4;
    INFER__ASSERT(sizeof heads <= sizeof u->heads);
    memcpy(u->heads, heads, sizeof heads);
    u->n_heads = (int32_t)INFER__COUNT(heads);
}

#endif
