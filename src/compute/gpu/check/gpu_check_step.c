/* gpu_check_step.c: checks of the kernels of recurrent layers (convolutions, state spaces, delta rules) and of several
 * streams. The table is in gpu_check_ops.c.
 */
#include "../gpu.h"

#ifndef INFER_NO_GPU

/* Rows of two sequences: most have a state, the others have none. The cells come first in the case, as they do in a
 * buffer: [0] and [3] are written, [1] is read. */
enum { INFER__PROBE_CELLS = 4 };
static void infer__probe_cells(infer__prober *k, int32_t first, int32_t rows) {
    static const int32_t cells[] = {1, -1, 3, 0};
    infer__pass *p = &k->side[0].pass;
    int32_t i;
    infer__probe_pass(k, rows);
    for (i = first; i < rows; i++) p->seq[i] = 1;
    memcpy(k->cells, cells, sizeof cells);
    p->cell_in = k->cells;
    p->cell_out = k->cells + 2;
    infer__probe_send(k);
}

/* Columns [first, first + n) of a tensor, on the CPU (0) or the device (1). */
static infer__tensor infer__probe_part(infer__prober *k, const infer__tensor *t, int32_t first, int32_t n, int g) {
    infer__tensor part = infer__probe_on(k, t, g);
    part.offset += (uint64_t)first * sizeof(float);
    part.cols = n;
    return part;
}

static void infer__probe_cells_end(infer__prober *k) { k->side[0].pass.cell_in = k->side[0].pass.cell_out = NULL; }

static void infer__probe_conv(infer__prober *k) {
    enum { COLS = 132, ROWS = 7, RUN = 11 };
    infer__conv_args a;
    infer__weight w, bias;
    infer__tensor state, x, y;
    int32_t g, with, taps;
    for (with = 0; with < 6; with++) {
        if (!infer__probe_new(k)) return;
        taps = with & 1 ? 4 : 2;
        state = infer__probe_tensor(k, INFER__PROBE_CELLS * (taps - 1) * (1 + with % 3), COLS, 0, 0);
        x = infer__probe_tensor(k, ROWS, 3 * COLS, 1, 2);
        y = infer__probe_tensor(k, ROWS, COLS, 2, 1);
        w = infer__probe_weight(k, infer__quant_find(0, NULL), COLS, taps);
        bias = infer__probe_vector(k, COLS);
        INFER__ASSERT(state.offset == 0);
        memset(&a, 0, sizeof a);
        a.w = &w;
        a.taps = taps;
        a.apart = 1 + with % 3;
        infer__probe_cells(k, 5, ROWS);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            a.x.cols = COLS;
            a.y = infer__probe_on(k, &y, g);
            if (with & 2) {
                a.gate_in = a.gate_out = a.x;
                a.gate_in.offset += COLS * sizeof(float);
                a.gate_out.offset += 2 * COLS * sizeof(float);
            }
            if (with & 4) {
                a.bias = &bias;
                a.silu = 1;
                a.x_run = with & 1 ? RUN : 0;
                a.x_step = 3 * RUN;
            }
            a.state = &k->at[g];
            k->side[g].ops->conv(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &state, 1, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &y, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "%d taps %d apart, rows of two sequences of %d%s%s", (int)taps, (int)a.apart, (int)COLS,
                         with & 2 ? ", gated" : "", with & 4 ? ", biased" : "");
        infer__probe_cells_end(k);
    }
}

/* Values of a become -2 .. 0. */
static void infer__probe_decay(infer__prober *k, infer__weight *w) {
    float *a = (float *)((char *)k->at[0].host + w->offset);
    int32_t i;
    for (i = 0; i < w->cols; i++) a[i] = a[i] - 1.0f;
}

/* Rows that pass the ends of what a kernel reads at a time. */
enum { INFER__PROBE_STEPS = 21, INFER__PROBE_STEPPED = 18 };

static void infer__probe_ssm(infer__prober *k) {
    static const struct { int32_t heads, dim, groups, state, own; } cases[] = {
        {4, 35, 2, 130, 0}, {3, 16, 1, 5, 0}, {35, 1, 1, 16, 1}, {17, 1, 1, 71, 1}};
    infer__tensor state, x, dt, bc, y;
    infer__weight w, bias, skip;
    infer__ssm_args a;
    size_t i;
    int32_t g;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        const int32_t inner = cases[i].heads * cases[i].dim, n = cases[i].groups * cases[i].state;
        const int32_t units = infer__ssm_units(cases[i].heads, cases[i].own);
        if (!infer__probe_new(k)) return;
        memset(&a, 0, sizeof a);
        a.heads = cases[i].heads;
        a.dim = cases[i].dim;
        a.groups = cases[i].groups;
        a.state = cases[i].state;
        a.own_a = cases[i].own;
        state = infer__probe_tensor(k, INFER__PROBE_CELLS * units, a.state * infer__ssm_lanes(a.dim, a.own_a), 0, 0);
        x = infer__probe_tensor(k, INFER__PROBE_STEPS, inner, 3, 1);
        dt = infer__probe_tensor(k, INFER__PROBE_STEPS, a.heads, 2, 0);
        bc = infer__probe_tensor(k, INFER__PROBE_STEPS, 2 * n, 1, 3);
        y = infer__probe_tensor(k, INFER__PROBE_STEPS, inner, 0, 2);
        w = infer__probe_vector(k, a.own_a ? units * INFER__LANES * a.state : a.heads);
        infer__probe_decay(k, &w);
        bias = infer__probe_vector(k, a.heads);
        skip = infer__probe_vector(k, a.heads);
        a.a = &w;
        a.dt_bias = &bias;
        a.skip = &skip;
        infer__probe_cells(k, INFER__PROBE_STEPPED, INFER__PROBE_STEPS);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            a.dt = infer__probe_on(k, &dt, g);
            a.b = infer__probe_part(k, &bc, 0, n, g);
            a.c = infer__probe_part(k, &bc, n, n, g);
            a.y = infer__probe_on(k, &y, g);
            a.cells = &k->at[g];
            k->side[g].ops->ssm(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &state, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &y, 4 + (double)a.state, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "%d heads of %d, %d groups of %d states%s", (int)a.heads, (int)a.dim, (int)a.groups,
                         (int)a.state, a.own_a ? ", each its own" : "");
        infer__probe_cells_end(k);
    }
}

static void infer__probe_delta(infer__prober *k) {
    static const struct { int32_t heads, k_heads, dim, state, tiled; } cases[] = {
        {4, 2, 33, 130, 0}, {6, 3, 16, 13, 1}, {1, 1, 5, 256, 0}};
    infer__tensor state, qk, v, rates, y;
    infer__weight w, bias;
    infer__delta_args a;
    size_t i;
    int32_t g;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        const int32_t keys = cases[i].k_heads * cases[i].state, values = cases[i].heads * cases[i].dim;
        const int32_t each = cases[i].heads / cases[i].k_heads;
        if (!infer__probe_new(k)) return;
        memset(&a, 0, sizeof a);
        a.heads = cases[i].heads;
        a.k_heads = cases[i].k_heads;
        a.dim = cases[i].dim;
        a.state = cases[i].state;
        a.tiled = cases[i].tiled;
        a.run = a.tiled ? a.heads : each;
        a.run_step = a.tiled ? a.heads : 2 * each;
        a.eps = 1e-6f;
        state = infer__probe_tensor(k, INFER__PROBE_CELLS * a.heads, a.state * infer__ssm_lanes(a.dim, 0), 0, 0);
        qk = infer__probe_tensor(k, INFER__PROBE_STEPS, 2 * keys, 1, 1);
        v = infer__probe_tensor(k, INFER__PROBE_STEPS, values, 2, 0);
        rates = infer__probe_tensor(k, INFER__PROBE_STEPS, 2 * a.heads, 0, 2);
        y = infer__probe_tensor(k, INFER__PROBE_STEPS, values, 1, 0);
        w = infer__probe_vector(k, a.heads);
        infer__probe_decay(k, &w);
        bias = infer__probe_vector(k, a.heads);
        a.a = &w;
        a.dt_bias = &bias;
        infer__probe_cells(k, INFER__PROBE_STEPPED, INFER__PROBE_STEPS);
        for (g = 0; g < 2; g++) {
            a.q = infer__probe_part(k, &qk, 0, keys, g);
            a.k = infer__probe_part(k, &qk, keys, keys, g);
            a.v = infer__probe_on(k, &v, g);
            a.beta = infer__probe_part(k, &rates, 0, a.heads, g);
            a.alpha = infer__probe_part(k, &rates, a.tiled ? a.heads : each, a.heads, g);
            a.y = infer__probe_on(k, &y, g);
            a.cells = &k->at[g];
            k->side[g].ops->delta(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &state, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &y, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "%d heads of %d, %d key heads of %d", (int)a.heads, (int)a.dim, (int)a.k_heads,
                         (int)a.state);
        infer__probe_cells_end(k);
    }
}

/* With decays of keys, with a bound and without; lightning attention, whose q, k and v of a head are adjacent. */
static void infer__probe_keys(infer__prober *k) {
    static const struct { int32_t heads, dim, state, kind; float bound; } cases[] = {
        {2, 33, 130, INFER__DELTA_KEYS, 0}, {3, 16, 13, INFER__DELTA_KEYS, -5}, {2, 20, 20, INFER__DELTA_PLAIN, 0}};
    infer__tensor state, x, alpha, beta, y;
    infer__weight w, bias;
    infer__delta_args a;
    size_t i;
    int32_t g;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        const int32_t plain = cases[i].kind == INFER__DELTA_PLAIN, keys = cases[i].heads * cases[i].state;
        const int32_t values = cases[i].heads * cases[i].dim, all = 2 * keys + values;
        if (!infer__probe_new(k)) return;
        memset(&a, 0, sizeof a);
        a.kind = cases[i].kind;
        a.heads = a.k_heads = a.run = a.run_step = cases[i].heads;
        a.dim = cases[i].dim;
        a.state = cases[i].state;
        a.step = plain ? 3 * a.dim : 0;
        a.bound = cases[i].bound;
        a.eps = 1e-6f;
        state = infer__probe_tensor(k, INFER__PROBE_CELLS * a.heads, a.state * infer__ssm_lanes(a.dim, 0), 0, 0);
        x = infer__probe_tensor(k, INFER__PROBE_STEPS, all, 1, 1);
        alpha = infer__probe_tensor(k, INFER__PROBE_STEPS, keys, 2, 0);
        beta = infer__probe_tensor(k, INFER__PROBE_STEPS, a.heads, 0, 2);
        y = infer__probe_tensor(k, INFER__PROBE_STEPS, values, 1, 0);
        w = infer__probe_vector(k, a.heads);
        infer__probe_decay(k, &w);
        bias = infer__probe_vector(k, keys);
        a.a = &w;
        a.dt_bias = &bias;
        infer__probe_cells(k, INFER__PROBE_STEPPED, INFER__PROBE_STEPS);
        for (g = 0; g < 2; g++) {
            a.q = infer__probe_part(k, &x, 0, plain ? all : keys, g);
            a.k = infer__probe_part(k, &x, plain ? a.dim : keys, plain ? all - a.dim : keys, g);
            a.v = infer__probe_part(k, &x, plain ? 2 * a.dim : 2 * keys, plain ? all - 2 * a.dim : values, g);
            a.alpha = infer__probe_on(k, &alpha, g);
            a.beta = infer__probe_on(k, &beta, g);
            a.y = infer__probe_on(k, &y, g);
            a.cells = &k->at[g];
            k->side[g].ops->delta(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &state, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &y, plain ? 8 : 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "%d heads of %d, keys of %d%s", (int)a.heads, (int)a.dim, (int)a.state,
                         plain ? ", plain" : a.bound != 0 ? ", bounded" : "");
        infer__probe_cells_end(k);
    }
}

/* RWKV's kinds, k and v for each head and shared, with and without a mixture and a bonus. */
static void infer__probe_wkv(infer__prober *k) {
    static const struct { int32_t kind, heads, kv_heads, dim, mix; } cases[] = {
        {INFER__WKV_6, 2, 2, 32, 0}, {INFER__WKV_GATED, 4, 2, 16, 0}, {INFER__WKV_7, 2, 2, 64, 0},
        {INFER__WKV_7, 2, 1, 48, 1}}; /* whole lanes: the rest of a state is undefined */
    infer__tensor state, kv, x, y, bonus;
    infer__weight u, k_k, k_a;
    infer__wkv_args a;
    size_t i;
    int32_t g;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        const int32_t n = cases[i].heads * cases[i].dim, kvs = cases[i].kv_heads * cases[i].dim;
        const int32_t lanes = infer__ssm_lanes(cases[i].dim, 0), seven = cases[i].kind == INFER__WKV_7;
        if (!infer__probe_new(k)) return;
        memset(&a, 0, sizeof a);
        a.kind = cases[i].kind;
        a.heads = cases[i].heads;
        a.kv_heads = cases[i].kv_heads;
        a.dim = cases[i].dim;
        state = infer__probe_tensor(k, INFER__PROBE_CELLS * a.heads, lanes * lanes, 0, 0);
        kv = infer__probe_tensor(k, INFER__PROBE_STEPS, 2 * kvs, 1, 1);
        x = infer__probe_tensor(k, INFER__PROBE_STEPS, 5 * n, 2, 0);
        y = infer__probe_tensor(k, INFER__PROBE_STEPS, n, 1, 0);
        bonus = infer__probe_tensor(k, INFER__PROBE_STEPS, n, 0, 2);
        u = infer__probe_vector(k, n);
        k_k = infer__probe_vector(k, n);
        k_a = infer__probe_vector(k, n);
        a.u = a.kind == INFER__WKV_GATED ? NULL : &u;
        a.k_k = seven ? &k_k : NULL;
        a.k_a = seven ? &k_a : NULL;
        infer__probe_cells(k, INFER__PROBE_STEPPED, INFER__PROBE_STEPS);
        for (g = 0; g < 2; g++) {
            a.k = infer__probe_part(k, &kv, 0, kvs, g);
            a.v = infer__probe_part(k, &kv, kvs, kvs, g);
            a.r = infer__probe_part(k, &x, 0, n, g);
            a.w = infer__probe_part(k, &x, n, n, g);
            if (seven) a.rate = infer__probe_part(k, &x, 2 * n, n, g);
            if (seven) a.bonus = infer__probe_on(k, &bonus, g);
            if (cases[i].mix) a.first = infer__probe_part(k, &x, 3 * n, n, g);
            if (cases[i].mix) a.mix = infer__probe_part(k, &x, 4 * n, n, g);
            a.y = infer__probe_on(k, &y, g);
            a.cells = &k->at[g];
            k->side[g].ops->wkv(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &state, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &y, 8, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &bonus, 8, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "kind %d, %d heads of %d, %d of k and v", (int)a.kind, (int)a.heads, (int)a.dim,
                         (int)a.kv_heads);
        infer__probe_cells_end(k);
    }
}

/* Streams, each kind that has a kernel; 300 values a row are more than a group has. */
static void infer__probe_streams(infer__prober *k) {
    enum { ROWS = 3, COLS = 300 };
    infer__tensor x, rest, base, coef, scaled;
    infer__streams_args a;
    infer__weight scale, offset;
    int32_t kind, coefs, g;
    for (kind = INFER__STREAMS_PREDICT; kind <= INFER__STREAMS_KEYED; kind++) {
        const int beside = kind >= INFER__STREAMS_JOIN;
        if (!infer__probe_new(k)) return;
        memset(&a, 0, sizeof a);
        a.kind = kind;
        a.n = kind == INFER__STREAMS_MATCH ? 4 : 3 + 5 * (kind == INFER__STREAMS_CORRECT);
        a.cut = 0.7f;
        x = infer__probe_tensor(k, ROWS, COLS, 1, 2);
        rest = infer__probe_tensor(k, beside ? ROWS : (a.n - 1) * ROWS, beside ? a.n * COLS : COLS, 2, 1);
        base = infer__probe_tensor(k, ROWS, kind == INFER__STREAMS_KEYED ? a.n * COLS : COLS, 0, 3);
        scaled = infer__probe_tensor(k, ROWS, COLS, 3, 0);
        coefs = beside ? (2 + a.n) * a.n : kind == INFER__STREAMS_PREDICT ? a.n * a.n : a.n;
        coef = infer__probe_tensor(k, ROWS, coefs, 2, 2);
        scale = infer__probe_vector(k, kind == INFER__STREAMS_JOIN ? 3 : COLS);
        offset = infer__probe_vector(k, (2 + a.n) * a.n);
        a.scale = kind == INFER__STREAMS_CORRECT || kind == INFER__STREAMS_ATTEND || beside ? &scale : NULL;
        a.offset = kind == INFER__STREAMS_JOIN ? &offset : NULL;
        a.rounds = 5;
        a.times = 2;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            a.rest = infer__probe_on(k, &rest, g);
            a.base = infer__probe_on(k, &base, g);
            a.scaled = infer__probe_on(k, &scaled, g);
            a.coef = infer__probe_on(k, &coef, g);
            k->side[g].ops->streams(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &x, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &rest, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &base, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &scaled, 4, NULL, INFER__PROBE_ROUNDING, 0);
        if (kind == INFER__STREAMS_JOIN) infer__probe_near(k, &coef, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "kind %d, %d rows of %d streams of %d", (int)kind, (int)ROWS, (int)a.n, (int)COLS);
    }
}

#endif
