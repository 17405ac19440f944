/* test_index.c: which positions attention reads: the op beside sorting in double, attention over what it chose beside sums in
 * double, both for any threads, cut of the rows and level, and with the bits of attention that chooses nothing where all are
 * chosen; what a session keeps; hostile sizes. Uses helpers of test_ops.c, test_attention.c and test_hostile_keys.c. */

typedef struct index_shape {
    ops_att att;                            /* values lie in front of keys where both have one head and dim_v < dim_k */
    int32_t heads, dim, top, block, local;  /* heads < 0: so many sets, without weights */
    int32_t len, step;
} index_shape;
static const index_shape index_shapes[] = {
    { { 3, 1, 40, 32, 0, INFER_KV_F32, 0, 0, 0 }, 1, 1, 1, 1, 0, 70, 1 },
    { { 20, 1, 40, 33, 0, INFER_KV_F16, 0, 0, 0 }, 5, 17, 9, 1, 0, 100, 3 },
    { { 6, 1, 48, 16, 0, INFER_KV_BF16, 0, 0, 0 }, 70, 32, 40, 1, 0, 300, 50 },
    { { 4, 2, 8, 12, 0, INFER_KV_F32, 2, 0, 0 }, -2, 7, 3, 4, 1, 90, 2 },
    { { 6, 3, 33, 17, 0, INFER_KV_F16, 0, 0, 0.5f }, -3, 16, 5, 7, 2, 130, 5 },
    { { 4, 2, 64, 64, 0, INFER_KV_Q8_0, 0, 0, 0 }, -1, 32, 30, 1, 3, 120, 7 },
    { { 2, 1, 5, 3, 0, INFER_KV_Q4_0, 0, 0, 0 }, 2, 32, 1000, 1, 0, 80, 9 },
    { { 2, 2, 16, 16, 0, INFER_KV_F16, 0, 0, 0 }, 4, 8, 700, 1, 0, 1300, 1299 },
    { { 2, 1, 24, 16, 0, INFER_KV_F32, 0, 0, 0 }, 3, 8, 5000, 1, 0, 1300, 1299 } };

/* Small whole numbers: every sum is exact, and many are equal. */
static void index_wholes(float *x, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) x[i] = (float)((int32_t)(ops_bits() % 5) - 2);
}

static void index_naive(const index_shape *d, const ops_cache *keys, const float *q, const float *w, int32_t seq, int32_t pos, int32_t set,
                        int32_t *list) {
    const int32_t n = pos / d->block + 1, all = d->heads < 0 ? -d->heads : d->heads;
    double *best = (double *)malloc((size_t)n * sizeof *best);
    int32_t i, j, h, k, taken, have = 0;
    char *in = (char *)calloc((size_t)n, 1);
    for (i = 0; i < n; i++) best[i] = i >= n - d->local ? 1e300 : -1e300;
    for (j = 0; j <= pos; j++) {
        double score = 0;
        for (h = 0; h < all; h++) {
            double dot = 0;
            for (k = 0; k < d->dim; k++) dot += (double)q[h * d->dim + k] * keys->ks[(j * OPS_SEQ + seq) * d->dim + k];
            if (w) score += w[h] * (dot > 0 ? dot : 0);
            else if (h == set) score = dot;
        }
        if (score > best[j / d->block]) best[j / d->block] = score;
    }
    for (taken = 0; taken < d->top && taken < n; taken++) {
        for (i = 0, k = -1; i < n; i++)
            if (!in[i] && (k < 0 || best[i] > best[k])) k = i;
        in[k] = 1;
    }
    for (j = 0; j <= pos; j++)
        if (in[j / d->block]) list[1 + have++] = j;
    list[0] = have;
    free(best);
    free(in);
}

/* Rows [from, to): what is chosen to y, what attention makes of it to z. */
static void index_rows(infer__ctx *c, const index_shape *d, ops_cache *o, ops_cache *keys, float *iq, float *w, float *y, float *q, float *z,
                       int32_t *pos, int32_t *seq, int32_t from, int32_t to) {
    const int32_t all = d->heads < 0 ? -d->heads : d->heads, sets = d->heads < 0 ? all : 1, n = to - from;
    const int32_t most = 1 + INFER__MIN(d->top * d->block, d->len), nq = d->att.n_head * d->att.dim_k, nz = d->att.n_head * d->att.dim_v;
    infer__index_args a;
    infer__attention_args at = ops_att_args(&d->att);
    infer__buf b[6];
    memset(&a, 0, sizeof a);
    c->pass.pos = pos + from;
    c->pass.seq = seq + from;
    a.q = ops_tensor(&b[0], iq + from * (all * d->dim + 3), n, all * d->dim, all * d->dim + 3);
    if (d->heads > 0) a.w = ops_tensor(&b[1], w + from * all, n, all, all);
    a.y = ops_tensor(&b[2], y + from * (sets * most + 2), n, sets * most, sets * most + 2);
    a.k_cache = &keys->k;
    a.heads = all;
    a.dim = d->dim;
    a.top = d->top;
    a.block = d->block;
    a.local = d->local;
    c->ops->index(c, &a);
    at.q = ops_tensor(&b[3], q + from * nq, n, nq, nq);
    at.y = ops_tensor(&b[4], z + from * nz, n, nz, nz);
    at.k_cache = &o->k;
    at.v_cache = d->att.n_head_kv == 1 && d->att.dim_v < d->att.dim_k ? &o->k : &o->v;
    at.group = 1;
    at.temp_offset = 1;
    at.chosen = a.y;
    at.chosen_sets = sets;
    c->ops->attention(c, &at);
    if (d->top * d->block < d->len || from > 0) return;
    at.chosen.buf = NULL;
    at.y = ops_tensor(&b[5], ops_floats((size_t)(n * nz)), n, nz, nz);
    c->ops->attention(c, &at);
    CHECK(memcmp(b[5].host, z, (size_t)(n * nz) * sizeof *z) == 0);
    free(b[5].host);
}

static void index_case(const index_shape *d) {
    const ops_att of = { 1, 1, d->dim, 1, 0, INFER_KV_F16, 0, 0, 0 };
    const int32_t all = d->heads < 0 ? -d->heads : d->heads, sets = d->heads < 0 ? all : 1, n = (d->len + d->step - 1) / d->step;
    const int32_t most = 1 + INFER__MIN(d->top * d->block, d->len), nq = d->att.n_head * d->att.dim_k, nz = d->att.n_head * d->att.dim_v;
    const int32_t wide = all * d->dim + 3, row = sets * most + 2, front = d->att.n_head_kv == 1 && d->att.dim_v < d->att.dim_k;
    float *iq = ops_floats((size_t)(n * wide)), *w = ops_floats((size_t)(n * all)), *y = ops_floats((size_t)(n * row));
    float *q = ops_floats((size_t)(n * nq)), *z = ops_floats((size_t)(n * nz)), *first = ops_floats((size_t)(n * nz)), *lists = ops_floats((size_t)(n * row));
    int32_t *list = (int32_t *)malloc((size_t)(d->len + 1) * sizeof *list), *pos = (int32_t *)malloc((size_t)n * sizeof *pos);
    int32_t *seq = (int32_t *)malloc((size_t)n * sizeof *seq), i, j, k, h, way;
    index_wholes(iq, n * wide);
    index_wholes(w, n * all);
    for (i = 0; i < n; i++) { /* the last one sees all */
        pos[i] = d->len - 1 - (n - 1 - i) * d->step;
        seq[i] = i / 4 % 2;
    }
    for (way = 0; way < 4; way++) { /* the CPU's own level, scalar; three threads; rows cut in pieces */
        infer__kv_store_args store;
        infer__ctx c;
        ops_cache o, keys;
        infer__buf bk;
        ops_seed = 77; /* the same cache each time */
        ops_index_sets = sets;
        ops_open(&c, way == 2 ? 3 : 1, way == 1 ? 0 : infer__cpu_found(), INFER__MAX(INFER__MAX(nq, nz), all * d->dim));
        ops_index_sets = 0;
        c.cpu->ranks_len = (1 + way) * sets * INFER__KV_CHUNK * ((d->len + INFER__KV_CHUNK - 1) / INFER__KV_CHUNK);
        c.cpu->ranks = (uint32_t *)infer__alloc(c.mem, (uint64_t)c.cpu->ranks_len * sizeof *c.cpu->ranks);
        ops_cache_fill(&c, &keys, &of, d->len);
        index_wholes(keys.ks, OPS_SEQ * d->len * d->dim);
        memset(&store, 0, sizeof store);
        store.k = ops_tensor(&bk, keys.ks, OPS_SEQ * d->len, d->dim, d->dim);
        store.k_cache = &keys.k;
        store.group = 1;
        store.n_head = 1;
        store.dim_k = d->dim;
        c.ops->kv_store(&c, &store);
        c.pass.pages[0] = keys.pages;
        ops_cache_fill(&c, &o, &d->att, d->len);
        for (i = 0; i < n; i = k) {
            k = way == 3 ? INFER__MIN(n, i + 1 + i % 3) : n;
            index_rows(&c, d, &o, &keys, iq, w, y, q, z, pos, seq, i, k);
        }
        for (i = 0; i < n && way == 0; i++)
            for (j = 0; j < sets; j++) {
                const int32_t *got = (const int32_t *)(const void *)(y + i * row + j * most);
                index_naive(d, &keys, iq + i * wide, d->heads > 0 ? w + i * all : NULL, seq[i], pos[i], j, list);
                CHECK(memcmp(got, list, (size_t)(list[0] + 1) * sizeof *list) == 0);
                for (h = 0; h < d->att.n_head; h++) {
                    const int32_t hk = h / (d->att.n_head / d->att.n_head_kv);
                    double max = -1e300, sum = 0, scale = 1.5 / sqrt((double)d->att.dim_k), *s;
                    int32_t p, e;
                    if (hk * sets / d->att.n_head_kv != j) continue;
                    if (d->att.temp_scale != 0) scale *= log(floor((pos[i] + 1.0) / 32) + 1) * d->att.temp_scale + 1;
                    s = (double *)calloc((size_t)list[0], sizeof *s);
                    for (p = 0; p < list[0]; p++) {
                        for (e = 0; e < d->att.dim_k; e++)
                            s[p] += (double)q[i * nq + h * d->att.dim_k + e] *
                                    o.ks[((list[1 + p] * OPS_SEQ + seq[i]) * d->att.n_head_kv + hk) * d->att.dim_k + e] * scale;
                        if (d->att.softcap > 0) s[p] = d->att.softcap * tanh(s[p] / d->att.softcap);
                        if (s[p] > max) max = s[p];
                    }
                    for (p = 0; p < list[0]; p++) sum += s[p] = exp(s[p] - max);
                    for (e = 0; e < d->att.dim_v; e++) {
                        double want = 0;
                        for (p = 0; p < list[0]; p++) {
                            const int32_t at = (list[1 + p] * OPS_SEQ + seq[i]) * d->att.n_head_kv + hk;
                            want += s[p] / sum * (front ? o.ks[at * d->att.dim_k + e] : o.vs[at * d->att.dim_v + e]);
                        }
                        CHECK(ops_near(z[i * nz + h * d->att.dim_v + e], want, 1, 3e-6));
                    }
                    free(s);
                }
            }
        if (way == 0) memcpy(first, z, (size_t)(n * nz) * sizeof *z);
        if (way == 0) memcpy(lists, y, (size_t)(n * row) * sizeof *y);
        for (i = 0; i < n; i++)
            for (j = 0; j < sets; j++) {
                memcpy(&k, lists + i * row + j * most, sizeof k);
                CHECK(memcmp(lists + i * row + j * most, y + i * row + j * most, (size_t)(k + 1) * sizeof k) == 0);
            }
        if (way > 1) CHECK(memcmp(first, z, (size_t)(n * nz) * sizeof *z) == 0);
        ops_cache_drop(&c, &o);
        ops_cache_drop(&c, &keys);
        ops_close(&c);
    }
    free(iq); free(w); free(y); free(q); free(z); free(first); free(lists); free(list); free(pos); free(seq);
}

static void test_index_op(void) {
    char name[32];
    size_t i;
    for (i = 0; i < INFER__COUNT(index_shapes); i++) {
        snprintf(name, sizeof name, "case %d", (int)i);
        check_detail = name;
        index_case(&index_shapes[i]);
    }
}

/* Scores that are no numbers: as many positions as ever, in order. */
static void test_index_ranks(void) {
    static const float rising[] = { -3e38f, -1.0f, -1e-40f, 0.0f, 1e-40f, 1.0f, 3e38f };
    uint32_t x[40];
    int32_t i, equal;
    for (i = 1; i < (int32_t)INFER__COUNT(rising); i++) CHECK(infer__index_rank(rising[i - 1]) < infer__index_rank(rising[i]));
    CHECK(infer__index_rank(-0.0f) == infer__index_rank(0.0f) && infer__index_rank(infer__bits_f32(0xffc00000u)) == 0);
    CHECK(infer__index_rank(infer__bits_f32(0x7fc00000u)) == 0 && infer__index_rank(infer__bits_f32(0xff800000u)) > 0);
    for (i = 0; i < 40; i++) x[i] = i % 4 ? 0 : 0x01020304u + (uint32_t)(i % 8);
    CHECK(infer__index_least(x, 40, 5, &equal) == 0x01020308u && equal == 5);
    CHECK(infer__index_least(x, 40, 8, &equal) == 0x01020304u && equal == 3);
    CHECK(infer__index_least(x, 40, 12, &equal) == 0 && equal == 2);
}

/* Keys of indexers are a slot of their own where a layer has one; a saved session goes on with the same bits, with every
 * cache type; a choice that leaves nothing out is none. */
static void test_index_session(void) {
    static const char *const files[] = { "glm-dsa-shared-moe", "minimax-m3-blocks-moe" };
    enum { IDS = 60, VOCAB = 128 };
    infer_token ids[IDS];
    float dense[VOCAB];
    int32_t i, k, kv;
    cache_ids(ids, IDS, 5, VOCAB);
    for (i = 0; i < 2; i++) {
        infer_model *m = cache_model(files[i]);
        if (!m) return;
        check_detail = files[i];
        CHECK(m->n_states == (i ? 8 : 5)); /* of three layers two have an indexer */
        for (kv = INFER_KV_F32; kv <= INFER_KV_Q4_0; kv++) {
            state_bytes b;
            infer_session *s = latent_session(m, kv, 1), *t = latent_session(m, kv, 3);
            memset(&b, 0, sizeof b);
            if (s && t) {
                CHECK(infer_session_eval(s, ids, IDS - 30) == INFER_OK);
                CHECK(infer_session_save(s, state_write, &b) == INFER_OK && infer_session_load(t, state_read, &b) == INFER_OK);
                CHECK(infer_session_eval(s, ids + IDS - 30, 30) == INFER_OK);
                for (k = IDS - 30; k < IDS; k++) CHECK(infer_session_eval(t, ids + k, 1) == INFER_OK);
                CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), sizeof dense) == 0);
            }
            free(b.p);
            infer_session_destroy(s);
            infer_session_destroy(t);
        }
        for (kv = 0; kv < 3; kv++) { /* positions that are chosen: all but one, all, more than there are */
            infer_session *s;
            for (k = 0; k < m->hp.n_layer; k++) m->layers[k].index_of.top = (IDS - 1) / INFER__MAX(m->layers[k].index_of.block, 1) + kv;
            s = latent_session(m, INFER_KV_F32, 1);
            if (s) CHECK(infer_session_eval(s, ids, IDS) == INFER_OK);
            if (s && kv == 1) memcpy(dense, infer_session_logits(s, -1), sizeof dense);
            if (s && kv == 2) CHECK(memcmp(dense, infer_session_logits(s, -1), sizeof dense) == 0);
            infer_session_destroy(s);
        }
        CHECK(infer_model_close(m) == INFER_OK);
    }
}

/* Sizes of the file that do not fit: an error that names the key or the tensor. */
static void test_index_hostile(void) {
    static const struct { const char *file, *key; int64_t value; const char *says; } cases[] = {
        { "glm-dsa", "head_count", 0, "indexer.head_count" },      { "glm-dsa", "head_count", 3, "tensor blk.0.indexer" },
        { "glm-dsa", "head_count", 65536, "tensor blk.0.indexer" }, { "glm-dsa", "head_count", 0x7fffffff, "indexer.head_count" },
        { "glm-dsa", "key_length", 0, "indexer.key_length" },      { "glm-dsa", "key_length", 7, "indexer.key_length" },
        { "glm-dsa", "key_length", 1024, "tensor blk.0.indexer" }, { "glm-dsa", "key_length", 1025, "indexer.key_length" },
        { "glm-dsa", "top_k", 0, "indexer.top_k" },                { "glm-dsa", "top_k", (1 << 24) + 1, "indexer.top_k" },
        { "glm-dsa", "types", 0, "indexer.types" },                { "glm-dsa", "types", 2, "indexer.types" },
        { "glm-dsa", "block_size", 4, "indexer.block_size" },      { "minimax-m3", "head_count", 1, "indexer.head_count" },
        { "minimax-m3", "head_count", 4, "indexer.head_count" },   { "minimax-m3", "key_length", 17, "tensor blk.1.indexer" },
        { "minimax-m3", "block_size", 0, "indexer.block_size" },   { "minimax-m3", "block_size", 1 << 23, "indexer.block_size" },
        { "minimax-m3", "local_blocks", 5, "indexer.local_blocks" }, { "minimax-m3", "top_k", 1, "indexer.local_blocks" } };
    size_t i;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        size_t n = 0, size;
        char *data = check_read(check_data(cases[i].file[0] == 'g' ? "archs/glm-dsa-shared-moe.gguf" : "archs/minimax-m3-blocks-moe.gguf"), &n), *file;
        infer_model *m = NULL;
        infer_model_info info;
        infer_error e;
        gguf_writer w;
        char key[96];
        gw_init(&w);
        snprintf(key, sizeof key, "%s.attention.indexer.%s", cases[i].file, cases[i].key);
        check_detail = key;
        gw_int(&w, key, GW_U32, cases[i].value);
        file = data ? keys_file(data, n, &w, key, &size) : NULL;
        CHECK(file && infer_model_open_memory(&m, file, size, NULL, &e) == INFER_OK);
        if (m) {
            CHECK(infer_model_get_info(m, &info) == INFER_OK && !info.computes);
            CHECK_HAS(infer_model_why_not(m), cases[i].says);
        }
        infer_model_close(m);
        free(file);
        free(data);
    }
}

static void suite_index(void) {
    RUN(test_index_ranks);
    RUN(test_index_op);
    RUN(test_index_session);
    RUN(test_index_hostile);
}
