/* test_gpu_attention.c: cache and attention on devices against the CPU's: every type of cache, both forms of the kernels
 * (rows whose positions are cut into parts; tiles), rotation along with the store. Part of test_gpu_ops.c, whose
 * helpers it uses. */

typedef struct gpu_cache { infer__kv_buf k, v; } gpu_cache;

/* A cache whose every byte is 0xff: NaN. */
static void gpu_cache_make(infer__ctx *c, gpu_cache *o, int32_t type, int32_t pages, const ops_att *t) {
    uint64_t slots = (uint64_t)pages * INFER__PAGE * (uint64_t)t->n_head_kv;
    void *nan;
    o->k.type = o->v.type = type;
    CHECK(c->ops->alloc(c, &o->k.buf, slots * infer__kv_bytes(type, t->dim_k)));
    CHECK(c->ops->alloc(c, &o->v.buf, slots * infer__kv_bytes(type, t->dim_v)));
    nan = malloc((size_t)(o->k.buf.bytes + o->v.buf.bytes));
    memset(nan, 0xff, (size_t)(o->k.buf.bytes + o->v.buf.bytes));
    c->ops->upload(c, &o->k.buf, 0, nan, o->k.buf.bytes);
    c->ops->upload(c, &o->v.buf, 0, nan, o->v.buf.bytes);
    c->ops->sync(c);
    free(nan);
}

/* The same keys: the CPU has them transposed, page by page. */
static void gpu_same_keys(gpu_pair *p, const infer__kv_buf *cpu, const infer__kv_buf *gpu, int32_t pages,
                          const ops_att *t) {
    uint64_t page = cpu->buf.bytes / (uint64_t)pages;
    infer__buf rows = cpu->buf;
    int32_t i;
    rows.host = malloc((size_t)cpu->buf.bytes);
    for (i = 0; i < pages; i++)
        infer__kv_turn(cpu->type, t->n_head_kv, t->dim_k, (char *)cpu->buf.host + (uint64_t)i * page,
                       (char *)rows.host + (uint64_t)i * page, 1);
    gpu_same(p, &rows, &gpu->buf);
    free(rows.host);
}

static int gpu_block; /* 1: rows see later positions too; 2: others of the pass do, but these layers are causal */
static int gpu_shared; /* 1: no values are stored, they are the front of keys */

/* Two sequences of `len` positions in shuffled pages (the last page stays free) of a cache on the CPU and of one on the
 * device, and queries. */
typedef struct gpu_att {
    gpu_pair p;
    const ops_att *t;
    int32_t len, each, group, n;
    gpu_cache cache[2];
    gpu_tensor k, v, q, y;
    const infer__weight *sinks; /* NULL = none */
} gpu_att;

static void gpu_att_open(gpu_att *o, int device, const ops_att *t, int32_t len, int32_t n) {
    gpu_pair *p = &o->p;
    infer__kv_store_args store;
    int32_t pages, i, g, *table;
    o->t = t;
    o->len = len;
    o->n = n;
    o->sinks = NULL;
    o->each = (len + INFER__PAGE - 1) / INFER__PAGE;
    o->group = t->window > 0;
    pages = 2 * o->each;
    gpu_needs.cells = len;
    infer__need_attention(&gpu_needs, t->n_head, t->dim_k, t->dim_v);
    gpu_pair_vectors(p, device, t->type, INFER__MAX(2 * len, n), 2, o->each);
    memset(&gpu_needs, 0, sizeof gpu_needs);
    gpu_make(p, &o->k, 2 * len, t->n_head_kv * t->dim_k, 3, 1);
    gpu_make(p, &o->v, 2 * len, t->n_head_kv * t->dim_v, 0, 2);
    gpu_make(p, &o->q, n, t->n_head * t->dim_k, 1, 0);
    gpu_make(p, &o->y, n, t->n_head * t->dim_v, 2, 5);
    gpu_cache_make(&p->cpu, &o->cache[0], t->type, pages + 1, t);
    gpu_cache_make(&p->gpu, &o->cache[1], t->type, pages + 1, t);
    table = p->cpu.pass.pages[o->group];
    for (i = 0; i < pages; i++) table[i] = i;
    for (i = pages - 1; i > 0; i--) {
        int32_t other = (int32_t)(ops_bits() % (uint32_t)(i + 1)), swap = table[i];
        table[i] = table[other];
        table[other] = swap;
    }
    p->cpu.pass.n_rows = 2 * len;
    for (i = 0; i < 2 * len; i++) {
        p->cpu.pass.pos[i] = i / 2;
        p->cpu.pass.seq[i] = i % 2;
    }
    gpu_begin(p);
    memset(&store, 0, sizeof store);
    store.group = o->group;
    store.n_head = t->n_head_kv;
    store.dim_k = t->dim_k;
    store.dim_v = t->dim_v;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p->gpu : &p->cpu;
        store.k = g ? o->k.gpu : o->k.cpu;
        store.v = g ? o->v.gpu : o->v.cpu;
        store.k_cache = &o->cache[g].k;
        store.v_cache = gpu_shared ? NULL : &o->cache[g].v;
        c->ops->kv_store(c, &store);
    }
    gpu_same_keys(p, &o->cache[0].k, &o->cache[1].k, pages + 1, t);
    gpu_same(p, &o->cache[0].v.buf, &o->cache[1].v.buf);
}

static void gpu_att_close(gpu_att *o) {
    int g;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &o->p.gpu : &o->p.cpu;
        c->ops->release(c, &o->cache[g].k.buf);
        c->ops->release(c, &o->cache[g].v.buf);
    }
    gpu_drop(&o->p, &o->k);
    gpu_drop(&o->p, &o->v);
    gpu_drop(&o->p, &o->q);
    gpu_drop(&o->p, &o->y);
    gpu_pair_close(&o->p);
}

/* Attention of rows that the pass describes, on the CPU (g 0) or the device (1). */
static void gpu_attend(gpu_att *o, int g) {
    const ops_att *t = o->t;
    infer__ctx *c = g ? &o->p.gpu : &o->p.cpu;
    infer__attention_args a;
    a = ops_att_args(t);
    a.q = g ? o->q.gpu : o->q.cpu;
    a.y = g ? o->y.gpu : o->y.cpu;
    a.q.rows = a.y.rows = c->pass.n_rows;
    a.k_cache = &o->cache[g].k;
    a.v_cache = gpu_shared ? a.k_cache : &o->cache[g].v;
    a.group = o->group;
    a.temp_offset = 20;
    a.sinks = o->sinks;
    a.causal = gpu_block == 2;
    c->ops->attention(c, &a);
}

/* The rows that a case looks at: mixed 1: from the last position backwards in jumps, every third of the other sequence;
 * 0: neighbours, in order, the first half of the one sequence, then of the other. */
static void gpu_att_rows(gpu_att *o, int mixed) {
    static int32_t ends[128];
    const ops_att *t = o->t;
    int32_t *table = o->p.cpu.pass.pages[o->group], i, low = o->len;
    CHECK(o->n <= 128);
    o->p.cpu.pass.n_rows = o->n;
    for (i = 0; i < o->n; i++) {
        int32_t pos = (o->len - 1 - (o->n - 1 - i) / 2 + o->len) % o->len;
        if (mixed && t->window) pos = o->len - 1 - i * 3 % (o->len / 2 + 1);
        else if (mixed) pos = o->len - 1 - (i < 4 ? i * 31 % o->len : (i - 4) * 17 % o->len);
        if (pos < 0) pos = 0;
        o->p.cpu.pass.pos[i] = pos;
        o->p.cpu.pass.seq[i] = mixed ? i / 3 % 2 : i * 2 / o->n;
        low = INFER__MIN(low, pos);
        ends[i] = INFER__MIN(o->len, pos + 1 + i * 7 % 23);
    }
    o->p.cpu.pass.end = gpu_block ? ends : NULL;
    for (i = 0; t->window && i < 2 * o->each; i++) /* behind every window there are no pages any more */
        if ((i % o->each + 1) * INFER__PAGE <= low + 1 - t->window) table[i] = -1;
    gpu_begin(&o->p);
}

/* Sinks, also among the vector of a buffer. With one far below all scores the device gives what it gave without, bit by
 * bit: y has that. */
static void gpu_att_sinks(gpu_att *o, int first) {
    gpu_weight w;
    infer__buf without;
    int32_t n = o->t->n_head;
    o->sinks = gpu_weight_of(&o->p, &w, infer__quant_find(0, NULL), ops_sinks(first, n), 1, n, 1);
    if (first == OPS_LOW_SINK) {
        without = o->y.on_gpu;
        without.host = gpu_fetch(&o->p, &o->y.on_gpu);
        gpu_send(&o->p, &o->y); /* the op has to write it anew */
        gpu_attend(o, 1);
        gpu_same(&o->p, &without, &o->y.on_gpu);
        free(without.host);
    } else {
        gpu_attend(o, 0);
        gpu_attend(o, 1);
        gpu_near(&o->p, &o->y, 1, NULL);
    }
    CHECK(infer__ok(&o->p.cpu) && infer__ok(&o->p.gpu));
    o->sinks = NULL;
    gpu_weight_drop(&o->p, &w);
}

static uint64_t gpu_flash_parts; /* see infer__gpu_run */
static void gpu_attention_case(int device, const ops_att *t, int32_t len, int32_t n, int mixed) {
    gpu_att o;
    gpu_att_open(&o, device, t, len, n);
    gpu_att_rows(&o, mixed);
    CHECK(infer__gpu_attention_tiled(&o.p.gpu) == (n > 8 && !mixed));
    o.p.gpu.run->flash_parts = gpu_flash_parts;
    gpu_attend(&o, 0);
    gpu_attend(&o, 1);
    if (gpu_halves && n > 8 && infer__gpu_find(o.p.gpu.run, INFER__MODULE_FLASH, t->type))
        CHECK(gpu_shared ? gpu_ran(&o.p, INFER__K_FLASH576)
                         : gpu_ran(&o.p, INFER__K_FLASH64) || gpu_ran(&o.p, INFER__K_FLASH128) || gpu_ran(&o.p, INFER__K_FLASH256));
    gpu_near(&o.p, &o.y, 1, NULL);
    if (!gpu_small() || len % 2 == 0) gpu_att_sinks(&o, OPS_LOW_SINK);
    if (!gpu_small() || len % 2) gpu_att_sinks(&o, (int)(len + n + mixed) % 5);
    gpu_att_close(&o);
}

static void test_gpu_ops_attention(void) {
    char name[80];
    size_t i, n = gpu_small() ? 9 : INFER__COUNT(ops_att_cases);
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (i = 0; i < n; i++) {
            snprintf(name, sizeof name, "case %d", (int)i);
            check_detail = name;
            if (gpu_small()) {
                gpu_attention_case(d, &ops_att_cases[i], i % 2 ? 70 : 145, 4, 1);
                gpu_attention_case(d, &ops_att_cases[i], i % 2 ? 45 : 33, 9, 0);
                continue;
            }
            if (i % 2) gpu_attention_case(d, &ops_att_cases[i], 300, 22, 1);
            else gpu_attention_case(d, &ops_att_cases[i], 191, 7, 1);
            gpu_attention_case(d, &ops_att_cases[i], i % 2 ? 91 : 130, i % 3 ? 45 : 70, 0);
        }
    check_detail = "";
}

/* Rows that see later positions, few in parts and many in tiles. */
static void test_gpu_ops_attention_block(void) {
    static const ops_att shapes[] = {{3, 3, 7, 5, 0, 0, 0, 0, 0}, {8, 2, 64, 64, 0, 0, 3, 0, 0}, {7, 1, 128, 128, 0, 0, 0, 0, 0},
        {4, 2, 64, 64, 33, 0, 0, 0, 0}, {3, 1, 40, 24, 17, 0, 0, 0, 0}, {4, 2, 128, 128, 0, 0, 0, 0, 0.3f}};
    char name[80];
    size_t i;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (i = 0; i < 2 * INFER__COUNT(shapes); i++) {
            ops_att t = shapes[i / 2];
            gpu_block = 1 + i % 2;
            if (gpu_block == 1 && t.temp_scale != 0) continue; /* refused */
            t.type = INFER_KV_F16;
            snprintf(name, sizeof name, "shape %d%s", (int)i / 2, i % 2 ? ", causal" : "");
            check_detail = name;
            gpu_attention_case(d, &t, gpu_small() ? 70 : 300, 3, 1);
            gpu_attention_case(d, &t, gpu_small() ? 45 : 130, gpu_small() ? 9 : 70, 0);
        }
    gpu_block = 0;
    check_detail = "";
}

/* Every type of cache with head sizes that are no multiple of a block, and the sizes that models have. */
static void test_gpu_ops_attention_types(void) {
    static const ops_att shapes[] = {
        {3, 3, 7, 5, 0, 0, 0, 0, 0},          {6, 2, 33, 17, 20, 0, 2, 0, 0},     {8, 2, 64, 64, 0, 0, 0, 0, 0},
        {2, 1, 80, 96, 33, 0, 0, 8, 0.5f},    {1, 1, 1, 1, 0, 0, 0, 0, 0},        {5, 1, 32, 40, 64, 0, 0, 0, 0},
        {7, 1, 128, 128, 0, 0, 0, 0, 0},      {2, 2, 192, 128, 31, 0, 0, 0, 0},   {3, 1, 256, 256, 32, 0, 5, 0, 0},
        {9, 1, 576, 512, 0, 0, 0, 0, 0},      {1, 1, 1000, 1000, 0, 0, 0, 0, 0},
    };
    char name[80];
    size_t i;
    int32_t type;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (type = INFER_KV_F32; type <= INFER_KV_Q4_0; type++)
            for (i = 0; i < (gpu_small() ? 3 : INFER__COUNT(shapes)); i++) {
                ops_att t = shapes[i];
                t.type = type;
                snprintf(name, sizeof name, "cache type %d, shape %d", (int)type, (int)i);
                check_detail = name;
                if (t.dim_k > 200 && type % 3 != 1) continue; /* long heads: F32 and Q8_0 will do */
                gpu_attention_case(d, &t, gpu_small() ? 67 : 99, 3, 1);
                gpu_attention_case(d, &t, gpu_small() ? 35 : 67, gpu_small() ? 10 : 37, 0);
            }
    check_detail = "";
}

/* Values that are the front of keys: of a block, of many. */
static void test_gpu_ops_attention_shared(void) {
    static const ops_att shapes[] = {
        {4, 1, 24, 20, 0, 0, 0, 0, 0}, {6, 2, 45, 33, 20, 0, 0, 0, 0.5f}, {3, 1, 64, 62, 0, 0, 0, 0, 0}, {9, 1, 576, 512, 0, 0, 0, 0, 0}};
    char name[80];
    size_t i;
    int32_t type;
    int d;
    GPU_NEED();
    gpu_shared = 1;
    for (d = 0; d < gpu_devices(); d++)
        for (type = INFER_KV_F32; type <= INFER_KV_Q4_0; type++)
            for (i = 0; i < (gpu_small() ? 2 : INFER__COUNT(shapes)); i++) {
                ops_att t = shapes[i];
                t.type = type;
                snprintf(name, sizeof name, "cache type %d, shape %d", (int)type, (int)i);
                check_detail = name;
                if (t.dim_k > 200 && type % 3 != 1) continue;
                gpu_attention_case(d, &t, gpu_small() ? 67 : 99, 3, 1);
                gpu_attention_case(d, &t, gpu_small() ? 35 : 67, gpu_small() ? 10 : 37, 0);
            }
    gpu_shared = 0;
    check_detail = "";
}

/* Contexts around the ends of pages, chunks and parts; windows that end there too. */
static void test_gpu_ops_attention_contexts(void) {
    static const int32_t lens[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 512, 513, 2000, 4200};
    static const int32_t windows[] = {0, 1, 16, 63, 64, 65, 128};
    ops_att t = {4, 2, 12, 8, 0, INFER_KV_F16, 0, 0, 0};
    char name[80];
    size_t i, w;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (i = 0; i < INFER__COUNT(lens) && (!gpu_small() || lens[i] < 66); i++)
            for (w = 0; w < (gpu_small() || lens[i] > 64 ? 2 : INFER__COUNT(windows)); w++) {
                t.window = lens[i] > 64 && w ? 300 : windows[w];
                snprintf(name, sizeof name, "%d positions, window %d", (int)lens[i], (int)t.window);
                check_detail = name;
                gpu_attention_case(d, &t, lens[i], 2, 0);
                if (lens[i] < 4000) gpu_attention_case(d, &t, lens[i], gpu_small() ? 9 : 40, 0);
                if (lens[i] < 600) gpu_attention_case(d, &t, lens[i], gpu_small() ? 9 : 20, 1);
                if (!t.window || lens[i] > 600) continue;
                att_chunk = t.window;
                t.window = 0;
                snprintf(name, sizeof name, "%d positions, chunks of %d", (int)lens[i], (int)att_chunk);
                gpu_attention_case(d, &t, lens[i], gpu_small() ? 9 : 40, 0);
                gpu_attention_case(d, &t, lens[i], gpu_small() ? 7 : 20, 1);
                att_chunk = 0;
            }
    check_detail = "";
}

/* A query that is not a number makes that head of that row so; a value in the cache that is not, its column of the rows
 * that see it; nothing else changes. */
static void gpu_nan_case(int device, int32_t n) {
    static const ops_att t = {4, 2, 40, 40, 0, INFER_KV_F32, 0, 0, 0};
    enum { LEN = 150, AT = 130, COL = 3 };
    gpu_att o;
    float *z, *v;
    int32_t i, col, nans = 0;
    uint64_t at;
    gpu_att_open(&o, device, &t, LEN, n);
    infer__row(&o.q.cpu, n / 2)[t.dim_k + 5] = 3e38f; /* row n / 2, head 1 */
    infer__row(&o.q.cpu, n / 2)[t.dim_k + 5] *= 10;
    infer__row(&o.q.cpu, n / 2)[t.dim_k + 5] *= 0;
    gpu_send(&o.p, &o.q);
    gpu_att_rows(&o, 0);
    for (i = 0; i < n; i++) o.p.cpu.pass.pos[i] = AT - n / 2 + i;
    for (i = 0; i < n; i++) o.p.cpu.pass.seq[i] = 0;
    gpu_begin(&o.p);
    at = infer__kv_offset(t.type, o.p.cpu.pass.pages[0][AT / INFER__PAGE], 1, t.n_head_kv, t.dim_v) +
         (AT % INFER__PAGE * t.dim_v + COL) * sizeof(float);
    v = (float *)malloc(sizeof *v);
    memset(v, 0xff, sizeof *v);
    o.p.gpu.ops->upload(&o.p.gpu, &o.cache[1].v.buf, at, v, sizeof *v);
    o.p.gpu.ops->sync(&o.p.gpu);
    gpu_attend(&o, 0);
    gpu_attend(&o, 1);
    z = (float *)gpu_fetch(&o.p, &o.y.on_gpu);
    for (i = 0; i < n; i++)
        for (col = 0; col < t.n_head * t.dim_v; col++) {
            float got = z[5 + i * o.y.cpu.stride + col], want = infer__row(&o.y.cpu, i)[col];
            int32_t head = col / t.dim_v;
            int sees = o.p.cpu.pass.pos[i] >= AT && head >= 2;
            int bad = (i == n / 2 && head == 1) || (sees && col % t.dim_v == COL);
            nans += !infer__finite(got);
            if (sees && !bad && gpu_halves) continue; /* tensor cores: perhaps the whole head */
            CHECK(bad ? !infer__finite(got) : ops_near(got, want, 1 + fabs(want), gpu_tolerance()));
        }
    CHECK(nans >= t.dim_v + 2);
    CHECK(!gpu_halves || nans > t.dim_v + 2);
    free(z);
    free(v);
    gpu_att_close(&o);
}

/* A sink that is not a number makes its head so, on the CPU as well, and no other; with and without parts, and in tiles. */
static void gpu_nan_sink_case(int device, int32_t len, int32_t n) {
    static const ops_att t = {4, 2, 24, 20, 0, INFER_KV_F32, 0, 0, 0};
    const float sinks[4] = {1, -1e30f, infer__bits_f32(0x7fc00000u), 1e4f};
    infer_error err;
    gpu_weight w;
    gpu_att o;
    float *z;
    int32_t i, col;
    gpu_att_open(&o, device, &t, len, n);
    gpu_att_rows(&o, 0);
    gpu_vector_make(&o.p, &w, 0, t.n_head);
    memcpy(w.data, sinks, sizeof sinks);
    CHECK(infer__gpu_write(o.p.gpu.gpu, &w.on_gpu, w.w.offset, sinks, sizeof sinks, &err) == INFER_OK);
    CHECK(infer__gpu_flush(o.p.gpu.gpu, &err) == INFER_OK);
    o.sinks = &w.w;
    gpu_attend(&o, 0);
    gpu_attend(&o, 1);
    z = (float *)gpu_fetch(&o.p, &o.y.on_gpu);
    for (i = 0; i < n; i++)
        for (col = 0; col < t.n_head * t.dim_v; col++) {
            CHECK(infer__finite(z[5 + i * o.y.cpu.stride + col]) == (col / t.dim_v != 2));
            CHECK(infer__finite(infer__row(&o.y.cpu, i)[col]) == (col / t.dim_v != 2));
        }
    free(z);
    gpu_weight_drop(&o.p, &w);
    gpu_att_close(&o);
}

static void test_gpu_ops_attention_nan(void) {
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_nan_sink_case(d, 40, 3);
        gpu_nan_sink_case(d, 200, 3);
        gpu_nan_sink_case(d, 50, 34);
        gpu_nan_case(d, 6);
        gpu_nan_case(d, 34);
    }
}

/* Every type of cache that a kind of program has, n shapes: tiles that are not full, positions in parts. */
static void gpu_halves_shapes(int32_t kind, const ops_att *shapes, size_t n) {
    char name[80];
    size_t i;
    int32_t type;
    int d;
    for (d = 0; d < gpu_devices(); d++)
        for (type = INFER_KV_F32; type <= INFER_KV_Q4_0; type++) {
            if (infer__gpu_module(kind, type) < 0) continue;
            gpu_halves = type == INFER_KV_BF16 ? 2 : 1;
            for (i = 0; i < n; i++) {
                ops_att t = shapes[i];
                t.type = type;
                snprintf(name, sizeof name, "%s, cache type %d, shape %d", gpu_shared ? "latent" : "plain", (int)type, (int)i);
                check_detail = name;
                gpu_attention_case(d, &t, 99, i % 2 ? 10 : 37, 0);
                gpu_flash_parts = 2 + i % 2; /* some have nothing to do */
                gpu_attention_case(d, &t, 150, 16, 0);
                gpu_flash_parts = 0;
                if (type != INFER_KV_F16 || gpu_shared) continue;
                gpu_attention_case(d, &t, 300, i % 2 ? 45 : 13, 0);
                if (i % 3 == 0) gpu_attention_case(d, &t, 600, 16, 0);
            }
        }
}

/* Attention of many rows as tensor cores do it: every type of cache, every size of kernel, with what attention may have
 * besides; tiles that are not full, of several sequences, positions in parts. */
static void test_gpu_ops_attention_halves(void) {
    static const ops_att shapes[] = {
        {4, 2, 64, 64, 0, 0, 0, 0, 0},      {8, 2, 128, 128, 0, 0, 0, 0, 0},   {3, 1, 40, 24, 20, 0, 0, 0, 0.5f},
        {6, 2, 96, 72, 70, 0, 2, 0, 0},     {5, 5, 32, 48, 0, 0, 0, 8, 0},     {2, 1, 256, 192, 0, 0, 5, 8, 0},
        {71, 1, 8, 8, 0, 0, 0, 0, 0},       {140, 1, 16, 16, 33, 0, 0, 0, 0},
    };
    static const ops_att latent[] = {
        {4, 1, 96, 64, 0, 0, 0, 0, 0},   {16, 1, 576, 512, 0, 0, 0, 0, 0}, {70, 1, 320, 256, 40, 0, 0, 0, 0},
        {3, 1, 40, 24, 0, 0, 0, 0, 0.5f}, {9, 1, 552, 488, 0, 0, 2, 0, 0}};
    int d;
    GPU_NEED();
    gpu_halves_shapes(INFER__MODULE_FLASH, shapes, gpu_small() ? 3 : INFER__COUNT(shapes));
    gpu_shared = 1;
    gpu_halves_shapes(INFER__MODULE_LATENT, latent, gpu_small() ? 2 : INFER__COUNT(latent));
    gpu_shared = 0;
    gpu_halves = 1;
    for (d = 0; d < gpu_devices(); d++) {
        gpu_nan_sink_case(d, 50, 34);
        gpu_nan_case(d, 34);
        gpu_nan_case(d, 20);
    }
    gpu_halves = 0;
    check_detail = "";
}

/* Floats that are hard to store, in blocks of 32: codes of d exactly, halfway between two, and next to halfway; what is
 * not finite; zeros; sizes from 1e-30 to 1e30. */
static void gpu_hard_floats(float *x, int32_t n, int32_t levels) {
    int32_t i, at;
    for (at = 0; at < n; at += 32) {
        float d = (1.0f + 0.5f * ops_rand()) * powf(10.0f, 30.0f * ops_rand());
        uint32_t kind = ops_bits() % 8;
        if (kind > 5) d = 1.0f + 0.5f * ops_rand();
        for (i = at; i < at + 32 && i < n; i++) {
            float half = (float)(int32_t)(ops_bits() % (uint32_t)levels) - (float)(levels / 2) + 0.5f;
            x[i] = kind < 3 ? (float)(levels / 2) * d * ops_rand() : half * d;
            if (kind == 4) x[i] = nextafterf(x[i], ops_bits() & 1 ? 0.0f : 2.0f * x[i]);
            if (kind == 5 && ops_bits() % 4 == 0) x[i] = ops_bits() & 1 ? 0.0f : x[i] * (ops_bits() & 1 ? 3e38f : -3e38f) * 3e38f;
        }
        i = at + (int32_t)(ops_bits() % 32);
        if (kind > 2 && i < n) x[i] = (float)(levels / 2 - (levels > 16)) * (ops_bits() & 1 ? d : -d);
    }
}

/* Devices store the same bytes as the CPU. */
static void gpu_store_case(int device, int32_t type) {
    enum { ROWS = 64, HEADS = 3, PAGES = ROWS / INFER__PAGE };
    ops_att t = {3, HEADS, 96, 83, 0, 0, 0, 0, 0};
    gpu_tensor x[2];
    gpu_cache cache[2];
    gpu_pair p;
    infer__kv_store_args store;
    int32_t i, g;
    t.type = type;
    gpu_pair_vectors(&p, device, type, ROWS, 1, PAGES);
    gpu_make(&p, &x[0], ROWS, HEADS * t.dim_k, 1, 2);
    gpu_make(&p, &x[1], ROWS, HEADS * t.dim_v, 0, 1);
    for (g = 0; g < 2; g++) {
        for (i = 0; i < ROWS * HEADS; i++) {
            int32_t dim = g ? t.dim_v : t.dim_k;
            gpu_hard_floats(infer__row(&x[g].cpu, i / HEADS) + i % HEADS * dim, dim, type == INFER_KV_Q4_0 ? 16 : 256);
        }
        gpu_send(&p, &x[g]);
        gpu_cache_make(g ? &p.gpu : &p.cpu, &cache[g], type, PAGES, &t);
    }
    for (i = 0; i < PAGES; i++) p.cpu.pass.pages[0][i] = PAGES - 1 - i;
    for (i = 0; i < ROWS; i++) p.cpu.pass.pos[i] = i;
    gpu_begin(&p);
    memset(&store, 0, sizeof store);
    store.n_head = HEADS;
    store.dim_k = t.dim_k;
    store.dim_v = t.dim_v;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p.gpu : &p.cpu;
        store.k = g ? x[0].gpu : x[0].cpu;
        store.v = g ? x[1].gpu : x[1].cpu;
        store.k_cache = &cache[g].k;
        store.v_cache = &cache[g].v;
        c->ops->kv_store(c, &store);
    }
    gpu_same_keys(&p, &cache[0].k, &cache[1].k, PAGES, &t);
    gpu_same(&p, &cache[0].v.buf, &cache[1].v.buf);
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p.gpu : &p.cpu;
        c->ops->release(c, &cache[g].k.buf);
        c->ops->release(c, &cache[g].v.buf);
        gpu_drop(&p, &x[g]);
    }
    gpu_pair_close(&p);
}

static void test_gpu_ops_store(void) {
    char name[80];
    int32_t type;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (type = INFER_KV_Q8_0; type <= INFER_KV_Q4_0; type++) {
            snprintf(name, sizeof name, "cache type %d", (int)type);
            check_detail = name;
            gpu_store_case(d, type);
        }
    check_detail = "";
}

/* One launch against rope, rope and kv_store: the same bits. norms: and two norms of heads before, with weights for all
 * heads and for each (1), or with none of q (2). */
static void gpu_rope_store_case(int device, int32_t type, int32_t heads, int32_t kv, int32_t dim, int32_t n_rot,
                                int kind, int norms) {
    enum { ROWS = 5, MAX = 256 };
    ops_att t = {heads, kv, dim, dim, 0, type, 0, 0, 0};
    gpu_pair p;
    gpu_tensor q[2], k[2], v;
    gpu_cache cache[2];
    infer__buf freq;
    infer__rope_args rope_q, rope_k;
    infer__norm_args norm_q, norm_k;
    infer__weight weights[2];
    infer__kv_store_args store;
    float turns[2 * MAX];
    void *z[4];
    int32_t i, j;
    uint64_t launches;
    gpu_pair_vectors(&p, device, type, ROWS, 2, 2);
    for (j = 0; j < 2; j++) {
        gpu_make(&p, &q[j], ROWS, heads * dim, 3, 1);
        gpu_make(&p, &k[j], ROWS, kv * dim, 1, 2);
        gpu_cache_make(&p.gpu, &cache[j], type, 4, &t);
    }
    gpu_make(&p, &v, ROWS, kv * dim, 0, 0);
    memcpy(q[1].on_cpu.host, q[0].on_cpu.host, (size_t)q[0].on_cpu.bytes);
    memcpy(k[1].on_cpu.host, k[0].on_cpu.host, (size_t)k[0].on_cpu.bytes);
    gpu_send(&p, &q[1]);
    gpu_send(&p, &k[1]);
    for (i = 0; i < 2 * n_rot; i++) turns[i] = i % 2 ? 1e-9f : 0.3f / (float)(i + 1);
    CHECK(p.gpu.ops->alloc(&p.gpu, &freq, (uint64_t)n_rot * 2 * sizeof(float)));
    p.gpu.ops->upload(&p.gpu, &freq, 0, turns, freq.bytes);
    for (i = 0; i < ROWS; i++) {
        p.cpu.pass.pos[i] = 13 + i;
        p.cpu.pass.seq[i] = i % 2;
    }
    for (i = 0; i < 4; i++) p.cpu.pass.pages[0][i] = 3 - i;
    p.cpu.pass.extended[1] = 1;
    gpu_begin(&p);
    memset(&store, 0, sizeof store);
    memset(&rope_q, 0, sizeof rope_q);
    store.n_head = kv;
    store.dim_k = store.dim_v = dim;
    rope_q.dim = dim;
    rope_q.n_rot = n_rot;
    rope_q.kind = kind;
    rope_q.freq = &freq;
    rope_q.scale = 1.25f;
    rope_k = rope_q;
    rope_q.n_head = heads;
    rope_k.n_head = kv;
    memset(&norm_q, 0, sizeof norm_q);
    memset(weights, 0, sizeof weights);
    for (j = 0; j < 2; j++) { /* any numbers do */
        weights[j].type = infer__quant_find(0, NULL);
        weights[j].rows = 1;
        weights[j].cols = j ? kv * dim : dim;
        weights[j].buf = &v.on_gpu;
        weights[j].offset = 8;
    }
    norm_q.eps = 1e-6f;
    norm_k = norm_q;
    norm_q.n_groups = heads;
    norm_k.n_groups = kv;
    norm_q.weight = norms == 1 ? &weights[0] : NULL;
    norm_k.weight = &weights[1];
    store.v = v.gpu;
    for (j = 0; j < 2; j++) { /* 0: apart */
        rope_q.x = q[j].gpu;
        store.k = rope_k.x = k[j].gpu;
        store.k_cache = &cache[j].k;
        store.v_cache = &cache[j].v;
        store.rope_q = &rope_q;
        store.rope_k = &rope_k;
        norm_q.x = norm_q.y = q[j].gpu;
        norm_k.x = norm_k.y = k[j].gpu;
        store.norm_q = norms ? &norm_q : NULL;
        store.norm_k = norms ? &norm_k : NULL;
        p.gpu.apart = 1 - j;
        launches = p.gpu.launches;
        infer__kv_store(&p.gpu, &store);
        CHECK(p.gpu.launches - launches == (uint64_t)(j ? 1 : norms ? 5 : 3));
        z[2 * j] = gpu_fetch(&p, &cache[j].k.buf);
        z[2 * j + 1] = gpu_fetch(&p, &q[j].on_gpu);
        q[j].on_cpu.bytes = q[j].on_gpu.bytes;
    }
    CHECK(memcmp(z[0], z[2], (size_t)cache[0].k.buf.bytes) == 0);
    CHECK(memcmp(z[1], z[3], (size_t)q[0].on_gpu.bytes) == 0);
    CHECK(memcmp(z[1], q[0].on_cpu.host, (size_t)q[0].on_gpu.bytes) != 0);
    for (j = 0; j < 4; j++) free(z[j]);
    z[0] = gpu_fetch(&p, &cache[0].v.buf);
    gpu_same(&p, &(infer__buf){z[0], 0, cache[0].v.buf.bytes}, &cache[1].v.buf);
    free(z[0]);
    for (j = 0; j < 2; j++) {
        gpu_drop(&p, &q[j]);
        gpu_drop(&p, &k[j]);
        p.gpu.ops->release(&p.gpu, &cache[j].k.buf);
        p.gpu.ops->release(&p.gpu, &cache[j].v.buf);
    }
    gpu_drop(&p, &v);
    p.gpu.ops->release(&p.gpu, &freq);
    gpu_pair_close(&p);
}

static void test_gpu_ops_rope_store(void) {
    int32_t type;
    int d, kind;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (type = INFER_KV_F32; type <= INFER_KV_Q4_0; type++)
            for (kind = INFER__ROPE_PAIRS; kind <= INFER__ROPE_HALVES; kind++) {
                gpu_rope_store_case(d, type, 4, 2, 64, 64, kind, 0);
                gpu_rope_store_case(d, type, 3, 1, 33, 20, kind, 0);
                if (gpu_small()) continue;
                gpu_rope_store_case(d, type, 7, 7, 6, 2, kind, 0);
                gpu_rope_store_case(d, type, 8, 2, 128, 96, kind, 0);
            }
}

static void test_gpu_ops_norm_store(void) {
    int32_t type;
    int d, kind;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (type = INFER_KV_F32; type <= INFER_KV_Q4_0; type++)
            for (kind = INFER__ROPE_PAIRS; kind <= INFER__ROPE_HALVES; kind++) {
                gpu_rope_store_case(d, type, 4, 2, 128, 128, kind, 1);
                gpu_rope_store_case(d, type, 3, 1, 33, 20, kind, 2);
                if (gpu_small()) continue;
                gpu_rope_store_case(d, type, 7, 7, 6, 2, kind, 1);
                gpu_rope_store_case(d, type, 2, 1, 256, 64, kind, 2);
            }
}

/* What a recording of launches is kept for. */
static void test_gpu_ops_attention_bucket(void) {
    enum { ROWS = 16, PAGES = 70 };
    int32_t block[4 * ROWS + 2 * (1 + 2 * PAGES)], i;
    infer__ctx c;
    memset(&c, 0, sizeof c);
    memset(block, 0, sizeof block);
    gpu_pass(&c, block, ROWS, 2, PAGES);
    c.pass.n_rows = 1;
    CHECK(infer__gpu_attention_bucket(&c) == 64);
    c.pass.pos[0] = 63;
    CHECK(infer__gpu_attention_bucket(&c) == 64);
    c.pass.pos[0] = 64;
    CHECK(infer__gpu_attention_bucket(&c) == 128);
    c.pass.pos[0] = 1000;
    CHECK(infer__gpu_attention_bucket(&c) == 1024);
    c.pass.n_rows = 8;
    CHECK(infer__gpu_attention_bucket(&c) == 1024);
    c.pass.n_rows = ROWS; /* rows of one sequence: tiles; of many, rows */
    CHECK(infer__gpu_attention_bucket(&c) == 1025);
    for (i = 0; i < ROWS; i++) c.pass.seq[i] = i % 2;
    CHECK(infer__gpu_attention_bucket(&c) == 1024);
    CHECK(infer__gpu_parts_len(64, 4 * 12) == 0);
    CHECK(infer__gpu_parts_len(65, 4 * 12) == 8 * 2 * 4 * 12);
    CHECK(infer__gpu_parts_len(1 << 20, 4 * 12) == 8 * 64 * 4 * 12);
}
