/* test_gpu_index.c: lists of positions, attention by them, and entries that are made of several positions, on devices against the
 * CPU. Part of test_gpu_ops.c, whose helpers it uses, and those of test_gpu_attention.c and test_index.c. */

/* ---- what is chosen ---------------------------------------------------------------------------------------------- */

typedef struct gpu_index_shape {
    ops_att att;
    int32_t heads, dim, top, block, local; /* heads < 0: so many sets, without weights; 0: no queries */
    int32_t every, gives, window, len, n;
} gpu_index_shape;
static const gpu_index_shape gpu_index_shapes[] = {
    { { 3, 1, 40, 32, 0, INFER_KV_F32, 0, 0, 0 }, 1, 1, 1, 1, 0, 0, INFER__INDEX_POSITIONS, 0, 70, 3 },
    { { 20, 1, 40, 33, 0, INFER_KV_F16, 0, 0, 0 }, 5, 17, 9, 1, 0, 0, INFER__INDEX_POSITIONS, 0, 100, 12 },
    { { 6, 1, 48, 16, 0, INFER_KV_BF16, 0, 0, 0 }, 35, 32, 40, 1, 0, 0, INFER__INDEX_POSITIONS, 0, 200, 5 },
    { { 4, 2, 8, 12, 0, INFER_KV_F32, 2, 0, 0 }, -2, 7, 3, 4, 1, 0, INFER__INDEX_POSITIONS, 0, 90, 9 },
    { { 6, 3, 33, 17, 0, INFER_KV_F16, 0, 0, 0.5f }, -3, 16, 5, 7, 2, 0, INFER__INDEX_POSITIONS, 0, 130, 4 },
    { { 4, 2, 64, 64, 0, INFER_KV_Q8_0, 0, 0, 0 }, -1, 32, 30, 1, 3, 0, INFER__INDEX_POSITIONS, 0, 120, 5 },
    { { 2, 1, 5, 3, 0, INFER_KV_Q4_0, 0, 0, 0 }, 2, 32, 1000, 1, 0, 0, INFER__INDEX_POSITIONS, 0, 80, 6 },
    { { 4, 2, 24, 16, 0, INFER_KV_F32, 0, 0, 0 }, -1, 12, 3, 1, 0, 4, INFER__INDEX_RUNS, 0, 94, 12 },
    { { 2, 1, 24, 16, 0, INFER_KV_F32, 0, 0, 0 }, -1, 12, 2, 1, 0, 32, INFER__INDEX_RUNS, 0, 150, 12 },
    { { 5, 1, 40, 40, 0, INFER_KV_F32, 0, 0, 0 }, 3, 1024, 6, 1, 0, 4, INFER__INDEX_ENTRIES, 9, 101, 11 },
    { { 8, 1, 64, 64, 0, INFER_KV_F32, 0, 0, 0 }, 0, 0, 0, 1, 0, 128, INFER__INDEX_ENTRIES, 20, 270, 11 } };

/* Entries of a slot that has one for every so many positions, the same on both: whole numbers. */
static void gpu_entries_make(gpu_att *o, infer__kv_buf *b, int32_t every, int32_t dim) {
    const uint64_t bytes = (uint64_t)(2 * o->each + 1) * (uint64_t)infer__page_rows(every) * infer__kv_bytes(INFER_KV_F32, dim);
    int g;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &o->p.gpu : &o->p.cpu;
        b[g].type = INFER_KV_F32;
        CHECK(c->ops->alloc(c, &b[g].buf, bytes));
    }
    index_wholes((float *)b[0].buf.host, (int32_t)(bytes / sizeof(float)));
    o->p.gpu.ops->upload(&o->p.gpu, &b[1].buf, 0, b[0].buf.host, bytes);
    o->p.gpu.ops->sync(&o->p.gpu);
}

/* A key of whole numbers for each position, the same on both. */
static void gpu_index_keys(gpu_att *o, infer__kv_buf *b, const ops_att *t) {
    infer__kv_store_args store;
    gpu_cache cache[2];
    gpu_tensor k;
    int g;
    gpu_make(&o->p, &k, 2 * o->len, t->dim_k, 1, 0);
    index_wholes((float *)k.on_cpu.host, (int32_t)(k.on_cpu.bytes / sizeof(float)));
    gpu_send(&o->p, &k);
    memset(&store, 0, sizeof store);
    store.n_head = 1;
    store.dim_k = t->dim_k;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &o->p.gpu : &o->p.cpu;
        gpu_cache_make(c, &cache[g], t->type, 2 * o->each + 1, t);
        c->ops->release(c, &cache[g].v.buf);
        b[g] = cache[g].k;
        store.k = g ? k.gpu : k.cpu;
        store.k_cache = &b[g];
        c->ops->kv_store(c, &store);
    }
    gpu_drop(&o->p, &k);
}

/* few: room for few ranks. attend: attention by the lists, too. */
static void gpu_index_case(int device, const gpu_index_shape *d, int few, int attend) {
    const int32_t all = d->heads < 0 ? -d->heads : d->heads, sets = d->heads < 0 && !d->every ? all : 1, own = INFER__MAX(all, 1);
    const int32_t most = d->gives == INFER__INDEX_ENTRIES ? 1 + d->len / d->every + INFER__MIN(d->window, d->len)
                         : d->every ? 1 + INFER__MIN((d->top + 1) * d->every - 1, d->len) : 1 + INFER__MIN(d->top * d->block, d->len);
    const ops_att of = { 1, 1, INFER__MAX(d->dim, 1), 1, 0, d->att.type, 0, 0, 0 };
    infer__kv_buf keys[2], more[2];
    infer__index_args a;
    gpu_tensor iq, w, y;
    gpu_att o;
    int g;
    gpu_shared = d->gives == INFER__INDEX_ENTRIES;
    gpu_needs.index_sets = sets;
    gpu_att_open(&o, device, &d->att, d->len, d->n);
    o.p.cpu.cpu->ranks_len = 3 * sets * INFER__KV_CHUNK * ((d->len + INFER__KV_CHUNK - 1) / INFER__KV_CHUNK);
    o.p.cpu.cpu->ranks = (uint32_t *)infer__alloc(o.p.cpu.mem, (uint64_t)o.p.cpu.cpu->ranks_len * sizeof(uint32_t));
    if (few) o.p.gpu.run->ranks_len = (uint64_t)sets * 512; /* a row at a time, or two */
    if (d->every) gpu_entries_make(&o, keys, d->every, of.dim_k);
    else gpu_index_keys(&o, keys, &of);
    gpu_entries_make(&o, more, INFER__MAX(d->every, 1), d->att.dim_k);
    gpu_att_rows(&o, d->n > 8 ? 0 : 1);
    gpu_make(&o.p, &iq, d->n, own * of.dim_k, 3, 1);
    gpu_make(&o.p, &w, d->n, own, 1, 2);
    gpu_make(&o.p, &y, d->n, sets * most, 2, 3);
    index_wholes((float *)iq.on_cpu.host, (int32_t)(iq.on_cpu.bytes / sizeof(float)));
    index_wholes((float *)w.on_cpu.host, (int32_t)(w.on_cpu.bytes / sizeof(float)));
    gpu_send(&o.p, &iq);
    gpu_send(&o.p, &w);
    memset(&a, 0, sizeof a);
    a.heads = all;
    a.dim = d->dim;
    a.top = d->top;
    a.block = d->block;
    a.local = d->local;
    a.every = d->every;
    a.sum = d->every && d->heads < 0;
    a.gives = d->gives;
    a.window = d->window;
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &o.p.gpu : &o.p.cpu;
        infer__attention_args at = ops_att_args(&d->att);
        if (d->heads) a.q = g ? iq.gpu : iq.cpu;
        if (d->heads > 0) a.w = g ? w.gpu : w.cpu;
        a.y = g ? y.gpu : y.cpu;
        a.k_cache = &keys[g];
        c->ops->index(c, &a);
        at.q = g ? o.q.gpu : o.q.cpu;
        at.y = g ? o.y.gpu : o.y.cpu;
        at.k_cache = &o.cache[g].k;
        at.v_cache = gpu_shared ? at.k_cache : &o.cache[g].v;
        at.temp_offset = 20;
        at.chosen = a.y;
        at.chosen_sets = sets;
        if (gpu_shared) at.more = &more[g];
        at.more_every = d->every;
        if (attend) c->ops->attention(c, &at);
        CHECK_STR(c->error.message, "");
    }
    gpu_same(&o.p, &y.on_cpu, &y.on_gpu);
    if (attend) gpu_near(&o.p, &o.y, 2, NULL);
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &o.p.gpu : &o.p.cpu;
        c->ops->release(c, &keys[g].buf);
        c->ops->release(c, &more[g].buf);
    }
    gpu_drop(&o.p, &iq);
    gpu_drop(&o.p, &w);
    gpu_drop(&o.p, &y);
    gpu_att_close(&o);
    gpu_shared = 0;
}

static void gpu_index_cases(int attend) {
    char name[32];
    size_t i;
    int d;
    for (d = 0; d < gpu_devices(); d++)
        for (i = 0; i < INFER__COUNT(gpu_index_shapes); i++) {
            if (gpu_small() && (i == 2 || (i % 3 == 0) != attend)) continue;
            snprintf(name, sizeof name, "case %d", (int)i);
            check_detail = name;
            gpu_index_case(d, &gpu_index_shapes[i], (int)i % 2, attend);
        }
    check_detail = "";
}

static void test_gpu_ops_index(void) {
    GPU_NEED();
    gpu_index_cases(0);
}

static void test_gpu_ops_attention_lists(void) {
    GPU_NEED();
    gpu_index_cases(1);
}

/* Scores that are not numbers come last, those of -0 and 0 are equal. */
static void test_gpu_ops_index_order(void) {
    static const float scores[] = { NAN, -0.0f, 0, -INFINITY, 1e-40f, -1e-40f, INFINITY, -1, 1, NAN, 0, -3e38f };
    enum { N = (int)INFER__COUNT(scores) };
    static const ops_att of = { 1, 1, 1, 1, 0, INFER_KV_F32, 0, 0, 0 };
    int32_t top;
    int d, g;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (top = 1; top < N; top++) {
            infer__kv_buf keys[2];
            infer__index_args a;
            gpu_tensor iq, y;
            gpu_att o;
            gpu_needs.index_sets = 1;
            gpu_att_open(&o, d, &of, N, 1);
            o.p.cpu.cpu->ranks_len = INFER__KV_CHUNK;
            o.p.cpu.cpu->ranks = (uint32_t *)infer__alloc(o.p.cpu.mem, (uint64_t)o.p.cpu.cpu->ranks_len * sizeof(uint32_t));
            gpu_entries_make(&o, keys, 2, 1);
            memcpy(keys[0].buf.host, scores, INFER__MIN(sizeof scores, (size_t)keys[0].buf.bytes));
            o.p.gpu.ops->upload(&o.p.gpu, &keys[1].buf, 0, keys[0].buf.host, keys[0].buf.bytes);
            gpu_make(&o.p, &iq, 1, 1, 0, 0);
            gpu_make(&o.p, &y, 1, N + 2, 0, 0);
            ((float *)iq.on_cpu.host)[0] = 1;
            gpu_send(&o.p, &iq);
            gpu_att_rows(&o, 0);
            memset(&a, 0, sizeof a);
            a.heads = a.dim = a.block = 1;
            a.top = top;
            a.every = 2;
            a.gives = INFER__INDEX_RUNS;
            for (g = 0; g < 2; g++) {
                infer__ctx *c = g ? &o.p.gpu : &o.p.cpu;
                a.q = g ? iq.gpu : iq.cpu;
                a.y = g ? y.gpu : y.cpu;
                a.k_cache = &keys[g];
                c->ops->index(c, &a);
            }
            gpu_same(&o.p, &y.on_cpu, &y.on_gpu);
            for (g = 0; g < 2; g++) {
                infer__ctx *c = g ? &o.p.gpu : &o.p.cpu;
                c->ops->release(c, &keys[g].buf);
            }
            gpu_drop(&o.p, &iq);
            gpu_drop(&o.p, &y);
            gpu_att_close(&o);
        }
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

typedef struct gpu_compress_shape { int32_t dim, every, overlap, n_rot, kind, placed, first, more, type; } gpu_compress_shape;
static const gpu_compress_shape gpu_compress_shapes[] = {
    { 7, 4, 1, 4, INFER__ROPE_PAIRS, 1, 0, 0, INFER_KV_F32 },   { 33, 4, 1, 2, INFER__ROPE_PAIRS, 1, 5, 3, INFER_KV_F32 },
    { 64, 128, 0, 64, INFER__ROPE_HALVES, 1, 0, 11, INFER_KV_F32 }, { 40, 16, 0, 16, INFER__ROPE_HALVES, 0, 9, 0, INFER_KV_F32 },
    { 5, 2, 0, 0, INFER__ROPE_NONE, 0, 0, 0, INFER_KV_F32 },    { 1024, 4, 1, 64, INFER__ROPE_PAIRS, 1, 0, 0, INFER_KV_F32 } };

/* Rows of `len` positions of two sequences kept, and the entries that end there, in one pass. */
static void gpu_compress_case(int device, const gpu_compress_shape *d) {
    enum { LEN = 140, EACH = (LEN + INFER__PAGE - 1) / INFER__PAGE };
    const infer__quant *f32 = infer__quant_find(0, NULL);
    const int32_t wide = d->dim * (1 + d->overlap), width = d->first + 2 * wide + d->more, rows = infer__page_rows(d->every);
    infer__compress_args a;
    infer__rows_store_args store;
    infer__kv_buf kept[2], entries[2];
    infer__buf turns[2];
    gpu_weight place, norm;
    gpu_tensor x;
    gpu_pair p;
    float freq[128], pairs[256], *z;
    int32_t i;
    int g;
    memset(&a, 0, sizeof a);
    memset(kept, 0, sizeof kept);
    memset(entries, 0, sizeof entries);
    memset(turns, 0, sizeof turns);
    gpu_pair_open(&p, device, d->type, 2 * LEN, 2, EACH);
    for (i = 0; i < 2 * EACH; i++) {
        p.cpu.pass.pages[0][i] = (i * 5 + 3) % (2 * EACH);
        p.cpu.pass.pages[1][i] = (i * 7 + 2) % (2 * EACH);
    }
    for (i = 0; i < 2 * LEN; i++) {
        p.cpu.pass.pos[i] = i / 2;
        p.cpu.pass.seq[i] = i % 2;
    }
    p.cpu.pass.extended[1] = 1;
    gpu_begin(&p);
    for (i = 0; i < d->n_rot; i++) {
        double f;
        freq[i] = 1.0f / (float)(1 + i % 32);
        f = freq[i] / (2 * 3.14159265358979323846);
        pairs[2 * i] = (float)f;
        pairs[2 * i + 1] = (float)(f - pairs[2 * i]);
    }
    turns[0].host = freq;
    turns[0].bytes = (uint64_t)d->n_rot * sizeof *freq;
    CHECK(p.gpu.ops->alloc(&p.gpu, &turns[1], INFER__MAX(2 * turns[0].bytes, 16)));
    if (d->n_rot) p.gpu.ops->upload(&p.gpu, &turns[1], 0, pairs, 2 * turns[0].bytes);
    if (d->placed) a.place = gpu_weight_make(&p, &place, f32, d->every, wide, 0);
    a.norm = gpu_vector_make(&p, &norm, 0, d->dim);
    gpu_make(&p, &x, 2 * LEN, width, 3, 1);
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p.gpu : &p.cpu;
        kept[g].type = INFER_KV_F32;
        entries[g].type = d->type;
        CHECK(c->ops->alloc(c, &kept[g].buf, (uint64_t)(2 * EACH * INFER__PAGE * width) * sizeof(float)));
        CHECK(c->ops->alloc(c, &entries[g].buf, (uint64_t)(2 * EACH * rows) * infer__kv_bytes(d->type, d->dim)));
        z = (float *)calloc(1, (size_t)(kept[0].buf.bytes + entries[0].buf.bytes));
        c->ops->upload(c, &kept[g].buf, 0, z, kept[g].buf.bytes);
        c->ops->upload(c, &entries[g].buf, 0, z, entries[g].buf.bytes);
        c->ops->sync(c);
        free(z);
        store.x = g ? x.gpu : x.cpu;
        store.rows = &kept[g];
        store.group = a.rows_group = 1;
        c->ops->rows_store(c, &store);
        a.rows = &kept[g];
        a.entries = &entries[g];
        a.n_rows = 2 * LEN;
        a.width = width;
        a.first = d->first;
        a.dim = d->dim;
        a.every = d->every;
        a.overlap = d->overlap;
        a.eps = 1e-5f;
        a.rope.kind = d->kind;
        a.rope.n_rot = d->n_rot;
        a.rope.freq = &turns[g];
        a.rope.scale = 1.5f;
        c->ops->compress(c, &a);
        CHECK_STR(c->error.message, "");
    }
    gpu_same(&p, &kept[0].buf, &kept[1].buf);
    z = (float *)gpu_fetch(&p, &entries[1].buf);
    for (i = 0; i < (int32_t)(entries[0].buf.bytes / sizeof *z); i++)
        CHECK(ops_near(z[i], ((float *)entries[0].buf.host)[i], 4, GPU_TOLERANCE));
    free(z);
    for (g = 0; g < 2; g++) {
        infer__ctx *c = g ? &p.gpu : &p.cpu;
        c->ops->release(c, &kept[g].buf);
        c->ops->release(c, &entries[g].buf);
    }
    p.gpu.ops->release(&p.gpu, &turns[1]);
    if (d->placed) gpu_weight_drop(&p, &place);
    gpu_weight_drop(&p, &norm);
    gpu_drop(&p, &x);
    gpu_pair_close(&p);
}

static void test_gpu_ops_compress(void) {
    char name[32];
    size_t i;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (i = 0; i < INFER__COUNT(gpu_compress_shapes); i++) {
            if (gpu_small() && gpu_compress_shapes[i].dim > 100) continue;
            snprintf(name, sizeof name, "case %d", (int)i);
            check_detail = name;
            gpu_compress_case(d, &gpu_compress_shapes[i]);
        }
    check_detail = "";
}
