/* test_gpu_faults.c: infer__gpu_ops when something is wrong: what ops refuse and in which words, and, on a made-up API
 * that counts and fails, that no failure leaks, is lost or lets work go on. Part of test_gpu_ops.c, which comes first.
 */
#include "fake_gpu.h"

/* ---- errors, memory, profile ------------------------------------------------------------------------------------- */

/* The same failure on both, then none. */
static void gpu_both_fail(gpu_pair *p, infer_result code) {
    CHECK(p->cpu.error.code == code && p->gpu.error.code == code);
    CHECK_STR(p->gpu.error.message, p->cpu.error.message);
    infer__error_clear(&p->cpu.error);
    infer__error_clear(&p->gpu.error);
}

/* A failure on the device that names `what`, before anything was launched. */
static void gpu_fails(gpu_pair *p, const char *what) {
    CHECK(p->gpu.error.code == INFER_ERR_UNSUPPORTED && p->gpu.launches == 0);
    CHECK_HAS(p->gpu.error.message, what);
    infer__error_clear(&p->gpu.error);
}

/* What the CPU refuses too, in the same words. */
static void gpu_refused_by_both(gpu_pair *p) {
    const infer__quant *q4 = infer__quant_find(2, NULL);
    gpu_tensor x, y;
    gpu_weight w, places, b;
    infer__embed_args embed;
    infer__matmul_args mm;
    infer__act_args act;
    int g;
    memset(&embed, 0, sizeof embed);
    memset(&mm, 0, sizeof mm);
    memset(&act, 0, sizeof act);
    gpu_make(p, &x, 2, 32, 0, 0);
    gpu_make(p, &y, 2, 32, 0, 0);
    embed.table = mm.w[0] = gpu_weight_make(p, &w, q4, 32, 32, 0);
    embed.positions = gpu_weight_make(p, &places, ops_f32(), 3, 32, 0);
    mm.b[0] = act.divide = gpu_weight_make(p, &b, q4, 1, 32, 1);
    embed.scale = 1;
    mm.n_w = 1;
    b.w.name = "blk.1.bias";
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p->gpu : &p->cpu;
        mm.x = act.x = act.y = g ? x.gpu : x.cpu;
        mm.y[0] = g ? y.gpu : y.cpu;
        c->ops->matmul(c, &mm);
    }
    CHECK_HAS(p->gpu.error.message, "blk.1.bias");
    gpu_both_fail(p, INFER_ERR_UNSUPPORTED);
    p->cpu.ops->act(&p->cpu, &act);
    act.x = act.y = x.gpu;
    p->gpu.ops->act(&p->gpu, &act);
    gpu_both_fail(p, INFER_ERR_UNSUPPORTED);
    for (g = 0; g < 2; g++) { /* a token, then a position that is not there */
        p->cpu.pass.ids[1] = g ? 31 : 32;
        p->cpu.pass.pos[1] = g ? 3 : 2;
        p->gpu.pass = p->cpu.pass;
        embed.y = y.cpu;
        p->cpu.ops->embed(&p->cpu, &embed);
        embed.y = y.gpu;
        p->gpu.ops->embed(&p->gpu, &embed);
        gpu_both_fail(p, INFER_ERR_ARGUMENT);
    }
    gpu_near(p, &y, 0, NULL); /* nothing was written */
    gpu_weight_drop(p, &w);
    gpu_weight_drop(p, &places);
    gpu_weight_drop(p, &b);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
}

/* Weights that are not on the device or of a type without kernels. */
static void gpu_refused_weights(gpu_pair *p) {
    const infer__quant *q;
    gpu_tensor x, y;
    gpu_weight w, v;
    infer__matmul_args mm;
    infer__norm_args norm;
    int32_t i;
    gpu_make(p, &x, 2, 256, 0, 0);
    gpu_make(p, &y, 2, 256, 0, 0);
    memset(&mm, 0, sizeof mm);
    memset(&norm, 0, sizeof norm);
    mm.n_w = 1;
    mm.x = norm.x = norm.y = x.gpu;
    mm.y[0] = y.gpu;
    mm.y[0].cols = 1;
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
        if (infer__gpu_has_type(q)) continue;
        memset(&w, 0, sizeof w);
        w.w = ops_weight(q, NULL, 1, 256);
        w.w.name = "blk.7.attn_q.weight";
        w.w.buf = &x.on_gpu; /* any memory: it is not read */
        mm.w[0] = &w.w;
        p->gpu.ops->matmul(&p->gpu, &mm);
        CHECK_HAS(p->gpu.error.message, q->name);
        gpu_fails(p, "blk.7.attn_q.weight");
    }
    mm.w[0] = gpu_weight_make(p, &w, ops_f32(), 1, 256, 0);
    norm.weight = mm.b[0] = gpu_vector_make(p, &v, 0, 1);
    norm.n_groups = 256;
    v.w.name = "blk.8.norm";
    v.w.buf = NULL;
    p->gpu.ops->norm(&p->gpu, &norm);
    gpu_fails(p, "blk.8.norm is not on the GPU");
    p->gpu.ops->matmul(&p->gpu, &mm);
    gpu_fails(p, "blk.8.norm is not on the GPU");
    w.w.buf = NULL;
    w.w.name = "blk.9.ffn";
    p->gpu.ops->matmul(&p->gpu, &mm);
    gpu_fails(p, "blk.9.ffn is not on the GPU");
    gpu_weight_drop(p, &w);
    gpu_weight_drop(p, &v);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
}

/* Sizes that kernels do not take. The buffers only say that they are large. */
static void gpu_refused_sizes(gpu_pair *p) {
    infer__kv_buf kv;
    infer__buf b;
    infer__tensor t;
    infer__moe_route_args route;
    infer__router router;
    infer__attention_args at;
    infer__kv_store_args store;
    infer__map_args map = { .range = NULL };
    memset(&b, 0, sizeof b);
    memset(&t, 0, sizeof t);
    b.bytes = (uint64_t)1 << 60;
    t.buf = &b;
    t.rows = 1;
    t.cols = t.stride = 1025;
    memset(&route, 0, sizeof route);
    route.x = route.ids = route.weights = t;
    memset(&router, 0, sizeof router);
    router.n_expert = 1025;
    router.n_used = 2;
    router.scale = 1;
    route.router = &router;
    route.bias = route.scales = NULL;
    p->gpu.ops->moe_route(&p->gpu, &route);
    gpu_fails(p, "1025 experts");
    kv.buf = b;
    kv.type = INFER_KV_F32;
    memset(&at, 0, sizeof at);
    memset(&store, 0, sizeof store);
    at.q = at.y = store.k = store.v = t;
    at.k_cache = at.v_cache = store.k_cache = store.v_cache = &kv;
    at.n_head = at.n_head_kv = store.n_head = 1;
    at.dim_k = at.dim_v = store.dim_k = store.dim_v = 1025;
    p->gpu.ops->attention(&p->gpu, &at);
    gpu_fails(p, "1025");
    kv.type = INFER_KV_F16; /* the context's is F32 */
    p->gpu.ops->attention(&p->gpu, &at);
    gpu_fails(p, "cache type 2");
    p->gpu.ops->kv_store(&p->gpu, &store);
    gpu_fails(p, "cache type 2");
    map.x = t;
    map.scale = 1;
    map.cap = map.clamp = 0;
    map.x.offset = (uint64_t)1 << 34; /* 2^32 floats */
    p->gpu.ops->map(&p->gpu, &map);
    gpu_fails(p, "17179869184 bytes");
    map.x.offset = 0;
    map.x.rows = INT32_MAX;
    p->gpu.ops->map(&p->gpu, &map);
    gpu_fails(p, "k_map");
}

/* The first failure stays; nothing runs until it is cleared, but for a wait. */
static void gpu_sticky(gpu_pair *p) {
    gpu_tensor x, y;
    infer__add_args add;
    infer__atomic cancel;
    infer__buf large;
    uint64_t up = p->gpu.bytes_up, down;
    gpu_make(p, &x, 1, 8, 0, 0);
    gpu_make(p, &y, 1, 8, 0, 0);
    CHECK(p->gpu.bytes_up == up + 64);
    add.x = x.gpu;
    add.y = y.gpu;
    add.scale = 1;
    down = p->gpu.bytes_down;
    infer__fail(&p->gpu, INFER_ERR_STATE, "first");
    p->gpu.ops->add(&p->gpu, &add);
    p->gpu.ops->begin(&p->gpu);
    p->gpu.ops->upload(&p->gpu, &y.on_gpu, 0, x.on_cpu.host, 32);
    p->gpu.ops->download(&p->gpu, &y.on_gpu, 0, x.on_cpu.host, 32);
    p->gpu.ops->copy_bytes(&p->gpu, &y.on_gpu, 0, &x.on_gpu, 0, 32);
    p->gpu.ops->sync(&p->gpu);
    CHECK_STR(p->gpu.error.message, "first");
    CHECK(p->gpu.launches == 0 && p->gpu.bytes_up == up + 64 && p->gpu.bytes_down == down);
    infer__error_clear(&p->gpu.error);
    gpu_same(p, &y.on_cpu, &y.on_gpu);
    memset(&cancel, 0, sizeof cancel);
    infer__atomic_set(&cancel, 1);
    p->gpu.cancel = &cancel;
    p->gpu.ops->add(&p->gpu, &add);
    CHECK(p->gpu.error.code == INFER_CANCELLED && p->gpu.launches == 0);
    p->gpu.cancel = NULL;
    infer__error_clear(&p->gpu.error);
    gpu_same(p, &y.on_cpu, &y.on_gpu);
    p->gpu.ops->copy_bytes(&p->gpu, &y.on_gpu, 4, &x.on_gpu, 8, 12);
    memcpy((char *)y.on_cpu.host + 4, (char *)x.on_cpu.host + 8, 12);
    gpu_same(p, &y.on_cpu, &y.on_gpu);
    CHECK(!p->gpu.ops->alloc(&p->gpu, &large, 0) && infer__ok(&p->gpu) && large.bytes == 0);
    CHECK(!p->gpu.ops->alloc(&p->gpu, &large, (uint64_t)1 << 60) && large.bytes == 0 && large.handle == 0);
    CHECK(p->gpu.error.code == INFER_ERR_MEMORY);
    CHECK_HAS(p->gpu.error.message, "1152921504606846976 bytes");
    infer__error_clear(&p->gpu.error);
    p->gpu.ops->release(&p->gpu, &large);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
    p->gpu.ops->release(&p->gpu, &y.on_gpu); /* twice: nothing */
}

static void test_gpu_ops_errors(void) {
    gpu_pair p;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 2, 1, 1);
        gpu_refused_by_both(&p);
        gpu_refused_weights(&p);
        gpu_refused_sizes(&p);
        gpu_sticky(&p);
        p.cpu.pass.n_rows = 3;
        p.cpu.pass.n_out = 999; /* more than the pass has room for, with axes and what is spare */
        gpu_begin(&p);
        CHECK(p.gpu.error.code == INFER_ERR_STATE);
        CHECK_HAS(p.gpu.error.message, "a pass of 3 rows");
        infer__error_clear(&p.gpu.error);
        gpu_pair_close(&p);
    }
}

/* The rows of the profile are those of the CPU, but for the time; every op waits. */
static void test_gpu_ops_profile(void) {
    enum { N = 3, COLS = 32 };
    gpu_pair p;
    int d, g, i, j;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_tensor x, y;
        gpu_weight w;
        const ops_att shape = {1, 1, COLS, COLS, 0, INFER_KV_F16, 0, 0, 0};
        gpu_cache cache[2];
        infer__embed_args embed;
        infer__matmul_args mm;
        infer__add_args add;
        infer__kv_store_args store;
        infer__attention_args at;
        gpu_pair_open(&p, d, INFER_KV_F16, N, 1, 1);
        gpu_make(&p, &x, N, COLS, 0, 0);
        gpu_make(&p, &y, N, COLS, 0, 0);
        gpu_cache_make(&p.cpu, &cache[0], INFER_KV_F16, 1, &shape);
        gpu_cache_make(&p.gpu, &cache[1], INFER_KV_F16, 1, &shape);
        memset(&embed, 0, sizeof embed);
        memset(&mm, 0, sizeof mm);
        memset(&store, 0, sizeof store);
        memset(&at, 0, sizeof at);
        p.cpu.pass.pages[0][0] = 0;
        for (i = 0; i < N; i++) p.cpu.pass.pos[i] = i;
        gpu_begin(&p);
        embed.table = mm.w[0] = mm.w[1] = gpu_weight_make(&p, &w, ops_f32(), COLS, COLS, 0);
        embed.scale = add.scale = 0.5f;
        mm.n_w = 2;
        store.n_head = at.n_head = at.n_head_kv = 4;
        store.dim_k = store.dim_v = at.dim_k = at.dim_v = COLS / 4;
        at.window = 2;
        at.scale = 1;
        p.cpu.profiling = p.gpu.profiling = 1;
        p.gpu.syncs = 0;
        for (g = 0; g < 2; g++) {
            infer__ctx *c = g ? &p.gpu : &p.cpu;
            embed.y = mm.x = add.x = at.q = store.k = store.v = g ? x.gpu : x.cpu;
            mm.y[0] = mm.y[1] = add.y = at.y = g ? y.gpu : y.cpu;
            store.k_cache = &cache[g].k;
            store.v_cache = &cache[g].v;
            at.k_cache = store.k_cache;
            at.v_cache = store.v_cache;
            c->ops->embed(c, &embed);
            for (i = 0; i < 3; i++) c->ops->matmul(c, &mm);
            c->ops->add(c, &add);
            c->ops->kv_store(c, &store);
            c->ops->attention(c, &at);
        }
        CHECK(p.gpu.syncs == 7 && p.gpu.launches == 7);
        for (i = 0; i < INFER__PROFILE_OPS && p.cpu.profile[i].op; i++) {
            const infer__profile *a = &p.cpu.profile[i], *b = NULL;
            for (j = 0; j < INFER__PROFILE_OPS && p.gpu.profile[j].op && !b; j++)
                if (strcmp(p.gpu.profile[j].op, a->op) == 0) b = &p.gpu.profile[j];
            check_detail = a->op;
            CHECK(b && b->calls == a->calls && b->bytes == a->bytes && b->seconds > 0);
        }
        check_detail = "";
        CHECK(i == 5 && p.gpu.profile[4].op && !p.gpu.profile[5].op);
        for (g = 0; g < 2; g++) {
            infer__ctx *c = g ? &p.gpu : &p.cpu;
            c->ops->release(c, &cache[g].k.buf);
            c->ops->release(c, &cache[g].v.buf);
        }
        gpu_weight_drop(&p, &w);
        gpu_drop(&p, &x);
        gpu_drop(&p, &y);
        gpu_pair_close(&p);
    }
}

/* ---- a made-up API ----------------------------------------------------------------------------------------------- */

/* The made-up device with kernels for F32 and Q8_0; 1, or 0 when a call failed. */
static int faulty_gpu(infer__gpu **g, infer__mem *mem, infer_error *err) {
    if (infer__gpu_open_in(fake_drivers, g, mem, &gpu_report, INFER_METAL, 2, NULL, err)) return 0;
    return !infer__gpu_use_type(*g, ops_f32(), err) && !infer__gpu_use_type(*g, infer__quant_find(8, NULL), err);
}

static void faulty_launched(const char *name, uint32_t x, uint32_t y) {
    CHECK_STR(fake.launched, name);
    CHECK(fake.groups[0] == x && fake.groups[1] == y && fake.groups[2] == 1);
}

/* One of every op on tensors of 9 rows of 300 columns in one buffer, with no optional buffers; checks the grids. */
static void faulty_ops(infer__ctx *c, infer__buf *b) {
    infer__tensor t, few, ids;
    infer__weight w = ops_weight(ops_f32(), NULL, 300, 300), e = ops_weight(infer__quant_find(8, NULL), NULL, 30, 320), v;
    infer__buf large;
    infer__kv_buf kv;
    infer__embed_args embed;
    infer__get_rows_args rows;
    infer__norm_args norm;
    infer__matmul_args mm;
    infer__rope_args rope;
    infer__kv_store_args store;
    infer__attention_args at;
    infer__act_args act;
    infer__add_args add;
    infer__map_args map = { .range = NULL };
    infer__moe_route_args route;
    infer__router router;
    infer__moe_matmul_args moe;
    infer__moe_bias_args bias;
    infer__conv_args conv;
    infer__weight taps = ops_weight(ops_f32(), NULL, 300, 3), rates = ops_weight(ops_f32(), NULL, 1, 300);
    infer__delta_args delta;
    infer__ssm_args ssm;
    int32_t cells[1] = {0};
    memset(&route, 0, sizeof route);
    memset(&t, 0, sizeof t);
    memset(&embed, 0, sizeof embed);
    memset(&norm, 0, sizeof norm);
    memset(&mm, 0, sizeof mm);
    memset(&at, 0, sizeof at);
    memset(&rope, 0, sizeof rope);
    memset(&store, 0, sizeof store);
    memset(&act, 0, sizeof act);
    memset(&moe, 0, sizeof moe);
    memset(&conv, 0, sizeof conv);
    w.buf = e.buf = taps.buf = rates.buf = b;
    kv.buf = *b;
    kv.type = c->kv_type;
    t.buf = b;
    t.rows = 9;
    t.cols = t.stride = 300;
    few = ids = t;
    few.rows = 8;
    ids.cols = ids.stride = 2;
    embed.y = rows.x = rows.y = norm.x = norm.y = mm.x = mm.y[0] = rope.x = store.k = store.v = at.q = at.y = t;
    act.x = act.y = add.x = add.y = map.x = route.x = t;
    embed.table = mm.w[0] = &w;
    embed.positions = NULL;
    embed.scale = norm.eps = rope.scale = at.scale = add.scale = map.scale = 1;
    norm.n_groups = store.n_head = at.n_head = at.n_head_kv = rope.n_head = 3;
    rope.dim = store.dim_k = store.dim_v = at.dim_k = at.dim_v = 100;
    rope.n_rot = 98;
    rope.kind = INFER__ROPE_HALVES;
    rope.freq = b;
    store.k_cache = store.v_cache = &kv;
    at.k_cache = at.v_cache = &kv;
    store.group = 0;
    mm.n_w = 1;
    conv.x = conv.y = t;
    conv.w = &taps;
    conv.taps = 3;
    conv.state = b;
    map.cap = map.clamp = 0;
    route.ids = route.weights = moe.ids = ids;
    memset(&router, 0, sizeof router);
    router.n_expert = 300;
    router.n_used = moe.n_used = bias.n_used = 2;
    router.scale = 1;
    route.router = &router;
    route.bias = route.scales = NULL;
    moe.w = &e; /* 3 experts of 10 rows */
    moe.rows = 10;
    moe.x = moe.y = t;
    moe.x.cols = moe.x.stride = 320;
    moe.y.rows = 18;
    moe.y.cols = moe.y.stride = 10;
#define FAULTY_OP(op, args, kernel, x, y) \
    do { c->ops->op(c, &(args)); if (infer__ok(c)) faulty_launched(kernel, x, y); } while (0)
    FAULTY_OP(embed, embed, "f32 k_embed", 9, 1);
    FAULTY_OP(get_rows, rows, "base k_get_rows", 18, 1);
    FAULTY_OP(norm, norm, "base k_norm", 4, 1); /* 8 short groups each */
    FAULTY_OP(matmul, mm, "f32 k_matmul", 10, 1);
    mm.x = mm.y[0] = few;
    FAULTY_OP(matmul, mm, "f32 k_mv8", 75, 1);
    FAULTY_OP(rope, rope, "base k_rope", 27, 1); /* 147 pairs a row */
    FAULTY_OP(kv_store, store, "kv_f16 k_kv_store", 18, 1);
    FAULTY_OP(attention, at, "kv_f16 k_attention_tile", 3, 1);
    FAULTY_OP(act, act, "base k_act", 18, 1);
    FAULTY_OP(add, add, "base k_add", 18, 1);
    FAULTY_OP(map, map, "base k_map", 18, 1);
    c->pass.cell_in = c->pass.cell_out = cells;
    FAULTY_OP(conv, conv, "base k_conv", 45, 1);
    memset(&delta, 0, sizeof delta);
    memset(&ssm, 0, sizeof ssm);
    delta.q = delta.k = delta.v = delta.y = delta.alpha = delta.beta = t; /* 10 heads of 30, 2 groups of 100 */
    delta.q.cols = delta.k.cols = 2 * 100;
    delta.a = delta.dt_bias = ssm.a = ssm.dt_bias = ssm.skip = &rates;
    delta.cells = ssm.cells = b;
    delta.heads = delta.run = delta.run_step = ssm.heads = 10;
    delta.k_heads = ssm.groups = 2;
    delta.dim = ssm.dim = 30;
    delta.state = ssm.state = 100;
    FAULTY_OP(delta, delta, "base k_step", 20, 1);
    ssm.x = ssm.y = ssm.dt = t;
    ssm.dt.cols = 10;
    ssm.b = ssm.c = delta.q;
    FAULTY_OP(ssm, ssm, "base k_step", 20, 1);
    ssm.own_a = ssm.dim = ssm.groups = 1;
    ssm.dt.cols = ssm.heads = 300;
    ssm.b.cols = ssm.c.cols = 100;
    FAULTY_OP(ssm, ssm, "base k_step_own", 19, 1);
    c->pass.cell_in = c->pass.cell_out = NULL;
    FAULTY_OP(moe_route, route, "base k_moe_route", 9, 1);
    FAULTY_OP(moe_matmul, moe, "q8_0 k_moe_matvec", 54, 1);
    moe.x.rows = 18;
    moe.y.rows = 9;
    moe.weights = ids;
    moe.per_expert_x = 1;
    FAULTY_OP(moe_matmul, moe, "q8_0 k_moe_matvec", 27, 1);
    v = w;
    v.rows = 1;
    v.cols = 300;
    bias.y = t;
    bias.ids = bias.weights = ids;
    bias.bias = &v;
    FAULTY_OP(moe_bias, bias, "base k_moe_bias", 18, 1);
#undef FAULTY_OP
    large = *b;
    large.bytes = (uint64_t)6 << 32; /* it says */
    w.buf = &large;
    w.offset = ((uint64_t)5 << 32) + 8;
    c->ops->matmul(c, &mm);
    CHECK(!infer__ok(c) || (c->launches == 20 && fake.args[0] == 8 && fake.args[1] == 5));
    t.rows = 0; /* nothing to do is no launch */
    add.x = add.y = t;
    c->ops->add(c, &add);
    CHECK(!infer__ok(c) || c->launches == 20);
}

/* From opening the device to closing it, as a context does it. Call number fail_at of the API and allocation number
 * no_memory fail; returns 1 when one of them did. */
static int faulty_run(long fail_at, long no_memory) {
    enum { ROWS = 9, FLOATS = 300 * 300 };
    static int32_t block[4 * ROWS + 1 + 2];
    static float x[FLOATS];
    infer_allocator counting = {NULL, check_alloc, check_free};
    infer__mem mem;
    infer__ctx c;
    infer__buf b, b2;
    infer_error err;
    char number[40];
    int failed = 1;
    infer__needs need;
    memset(&need, 0, sizeof need);
    fake_reset(fail_at);
    fake_device(FAKE_METAL, "Fake", NULL);
    memset(&c, 0, sizeof c);
    memset(&b, 0, sizeof b);
    memset(&b2, 0, sizeof b2);
    infer__mem_init(&mem, &counting, 0);
    infer__error_clear(&err);
    check_allocs = check_live = 0;
    check_fail_at = no_memory;
    c.ops = &infer__gpu_ops;
    c.mem = &mem;
    c.kv_type = INFER_KV_F16;
    c.ops->finish(&c); /* never prepared */
    c.ops->sync(&c);
    if (faulty_gpu(&c.gpu, &mem, &err)) {
        gpu_pass(&c, block, ROWS, 1, 1);
        need.rows = ROWS;
        need.cols = 300;
        need.exact = 1;
        need.block_len = (uint64_t)c.pass.block_len;
        if (c.ops->prepare(&c, &need) && c.ops->alloc(&c, &b, sizeof x) && c.ops->alloc(&c, &b2, sizeof x)) {
            c.ops->upload(&c, &b, 0, x, sizeof x);
            c.ops->begin(&c);
            faulty_ops(&c, &b);
            c.ops->copy_bytes(&c, &b2, 0, &b, 4, 100);
            c.ops->download(&c, &b, 0, x, 400);
            if (infer__ok(&c)) CHECK(fake.work == 24 && c.bytes_down == 400);
            if (infer__ok(&c)) CHECK(c.bytes_up == sizeof x + sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 36 + 3));
            c.ops->sync(&c);
            failed = !infer__ok(&c);
            if (failed) CHECK(fake.work == fake.work_failed); /* none after it */
        }
        err = c.error;
        c.ops->release(&c, &b2);
        c.ops->release(&c, &b);
        c.ops->finish(&c);
    }
    infer__gpu_close(c.gpu);
    fake_closed();
    CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
    if (failed && fail_at) {
        CHECK(err.code == INFER_ERR_DEVICE || err.code == INFER_ERR_MEMORY);
        snprintf(number, sizeof number, ": error %ld", -fail_at);
        CHECK_HAS(err.message, "Fake: ");
        CHECK_HAS(err.message, number);
    } else if (failed) {
        CHECK(err.code == INFER_ERR_MEMORY && err.message[0]);
    }
    check_fail_at = 0;
    return failed;
}

static void test_gpu_ops_faults(void) {
    char name[40];
    long i, n;
    CHECK(!faulty_run(0, 0));
    n = fake.calls;
    CHECK(n > 40);
    check_detail = name;
    for (i = 1; i <= n; i++) {
        snprintf(name, sizeof name, "call %ld", i);
        CHECK(faulty_run(i, 0) || i == n); /* the last one is the wait when the device is closed */
    }
    for (i = 1; i < 1000; i++) {
        snprintf(name, sizeof name, "allocation %ld", i);
        if (!faulty_run(0, i)) break;
    }
    CHECK(i > 5 && i < 1000);
    check_detail = "";
}
