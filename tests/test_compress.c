/* test_compress.c: entries of compressed attention beside sums in double, for any threads, cut of the rows and level; streams
 * that are mixed; tables that name experts which do not exist. Uses helpers of test_ops.c and test_hostile_keys.c. */

enum { COMPRESS_LEN = 272, COMPRESS_PAGES = COMPRESS_LEN / INFER__PAGE };

typedef struct compress_shape { int32_t dim, every, overlap, n_rot, type, first, more; } compress_shape;
static const compress_shape compress_shapes[] = {
    { 7, 4, 1, 4, INFER_KV_F32, 0, 0 },    { 33, 4, 1, 2, INFER_KV_F16, 5, 3 }, { 64, 128, 0, 64, INFER_KV_F32, 0, 11 },
    { 40, 128, 0, 16, INFER_KV_BF16, 9, 0 }, { 5, 4, 1, 0, INFER_KV_Q8_0, 0, 0 } };

/* Entry e by the formula. x: rows of all positions. */
static void compress_naive(const compress_shape *d, const float *x, int32_t width, const float *place, const float *norm, const float *freq,
                           int32_t e, double *y) {
    const int32_t wide = d->dim * (1 + d->overlap);
    double squares = 0;
    int32_t i, at, pass;
    for (i = 0; i < d->dim; i++) {
        double most = -1e300, sum = 0;
        y[i] = 0;
        for (pass = 0; pass < 2; pass++)
            for (at = INFER__MAX((e - d->overlap) * d->every, 0); at < (e + 1) * d->every; at++) {
                const int32_t col = (d->overlap && at >= e * d->every ? d->dim : 0) + i;
                const double score = (double)x[at * width + d->first + wide + col] + place[at % d->every * wide + col];
                if (!pass) most = score > most ? score : most;
                if (pass) sum += exp(score - most);
                if (pass) y[i] += exp(score - most) * x[at * width + d->first + col];
            }
        y[i] /= sum;
        squares += y[i] * y[i];
    }
    for (i = 0; i < d->dim; i++) y[i] = y[i] / sqrt(squares / d->dim + 1e-5) * norm[i];
    for (i = 0; i < d->n_rot / 2; i++) {
        double *p = y + d->dim - d->n_rot + 2 * i, turn = (double)e * d->every * freq[i], a = p[0], b = p[1];
        p[0] = a * cos(turn) - b * sin(turn);
        p[1] = a * sin(turn) + b * cos(turn);
    }
}

static void compress_case(const compress_shape *d) {
    const infer__quant *f32 = infer__quant_find(0, NULL);
    const int32_t wide = d->dim * (1 + d->overlap), width = d->first + 2 * wide + d->more, rows = infer__page_rows(d->every);
    const uint64_t row = infer__kv_bytes(d->type, d->dim), size = (uint64_t)(COMPRESS_PAGES * rows) * row;
    float *x = ops_floats((size_t)(COMPRESS_LEN * width)), *place = ops_floats((size_t)(d->every * wide));
    float *norm = ops_floats((size_t)d->dim), freq[64], *got = ops_floats((size_t)d->dim + INFER__KV_BLOCK);
    double *want = (double *)malloc((size_t)d->dim * sizeof *want);
    infer__weight w_place = ops_weight(f32, place, d->every, wide), w_norm = ops_weight(f32, norm, 1, d->dim);
    int32_t pos[COMPRESS_LEN], seq[COMPRESS_LEN], pages[COMPRESS_PAGES], extended = 0, i, k, way, e;
    uint8_t *first = (uint8_t *)calloc(1, (size_t)size);
    for (i = 0; i < 64; i++) freq[i] = 1.0f / (float)(1 + i % 32);
    for (i = 0; i < COMPRESS_LEN; i++) {
        pos[i] = i;
        seq[i] = 0;
    }
    for (i = 0; i < COMPRESS_PAGES; i++) pages[i] = (i * 5 + 3) % COMPRESS_PAGES;
    for (way = 0; way < 4; way++) { /* the CPU's own level, scalar; three threads; rows cut in pieces */
        infer__compress_args a;
        infer__rows_store_args store;
        infer__kv_buf kept, entries;
        infer__buf b, turns;
        infer__ctx c;
        ops_open(&c, way == 2 ? 3 : 1, way == 1 ? 0 : infer__cpu_found(), 8 * d->dim);
        memset(&kept, 0, sizeof kept);
        memset(&entries, 0, sizeof entries);
        memset(&a, 0, sizeof a);
        kept.type = INFER_KV_F32;
        kept.buf.host = calloc((size_t)(COMPRESS_LEN * width), sizeof(float));
        entries.type = d->type;
        entries.buf.host = calloc(1, (size_t)size);
        c.pass.pages[0] = c.pass.pages[1] = pages;
        c.pass.max_pages = COMPRESS_PAGES;
        c.pass.extended = &extended;
        memset(&turns, 0, sizeof turns);
        turns.host = freq;
        turns.bytes = sizeof freq;
        a.rows = store.rows = &kept;
        a.entries = &entries;
        a.rows_group = store.group = 1;
        a.width = width;
        a.first = d->first;
        a.dim = d->dim;
        a.every = d->every;
        a.overlap = d->overlap;
        a.place = &w_place;
        a.norm = &w_norm;
        a.eps = 1e-5f;
        a.rope.kind = d->n_rot ? INFER__ROPE_PAIRS : INFER__ROPE_NONE;
        a.rope.n_rot = d->n_rot;
        a.rope.freq = &turns;
        a.rope.scale = 1;
        for (i = 0; i < COMPRESS_LEN; i = k) {
            k = way == 3 ? INFER__MIN(COMPRESS_LEN, i + 1 + i % 7) : COMPRESS_LEN;
            c.pass.pos = pos + i;
            c.pass.seq = seq + i;
            a.n_rows = c.pass.n_rows = k - i;
            store.x = ops_tensor(&b, x + i * width, k - i, width, width);
            c.ops->rows_store(&c, &store);
            c.ops->compress(&c, &a);
        }
        CHECK(infer__ok(&c));
        for (e = 0; e < COMPRESS_LEN / d->every && way == 0; e++) {
            compress_naive(d, x, width, place, norm, freq, e, want);
            infer__flash_find(0)->kv[d->type].values(got, infer__kv_entry(&c.pass, &entries, 0, d->every, 0, e, d->dim), d->dim, 0, 0, 0);
            for (i = 0; i < d->dim; i++)
                CHECK(ops_near(got[i], want[i], 4, d->type == INFER_KV_F32 ? 2e-6 : d->type == INFER_KV_F16 ? 1e-3 : 1e-2));
        }
        if (way == 0) memcpy(first, entries.buf.host, (size_t)size);
        if (way > 1) CHECK(memcmp(first, entries.buf.host, (size_t)size) == 0);
        free(kept.buf.host);
        free(entries.buf.host);
        ops_close(&c);
    }
    free(x); free(place); free(norm); free(got); free(want); free(first);
}

static void test_compress_op(void) {
    char name[32];
    size_t i;
    for (i = 0; i < INFER__COUNT(compress_shapes); i++) {
        snprintf(name, sizeof name, "case %d", (int)i);
        check_detail = name;
        compress_case(&compress_shapes[i]);
    }
}

/* Of n streams: coefficients out of what a matrix gave, the sum that a sublayer reads, and what becomes of them after it. */
static void test_compress_streams(void) {
    const infer__quant *f32 = infer__quant_find(0, NULL);
    enum { ROWS = 5, COLS = 70, MOST = INFER__MAX_STREAMS };
    int32_t n, r, i, j, col, round;
    for (n = 2; n <= MOST; n += 3) {
        const int32_t wide = n * (2 + n);
        float *x = ops_floats(ROWS * COLS), *rest = ops_floats((size_t)(ROWS * n * COLS)), *coef = ops_floats((size_t)(ROWS * wide));
        float *base = ops_floats(ROWS * COLS), *offset = ops_floats((size_t)wide), scale[3] = { 1.5f, -0.5f, 2.0f };
        double *was = (double *)malloc((size_t)(ROWS * n * COLS) * sizeof *was), m[MOST][MOST], c[2 * MOST], sum;
        float *raw = (float *)malloc((size_t)(ROWS * wide) * sizeof *raw);
        infer__weight w_scale = ops_weight(f32, scale, 1, 3), w_offset = ops_weight(f32, offset, 1, wide);
        infer__streams_args a;
        infer__buf b[4];
        infer__ctx ctx;
        ops_open(&ctx, 3, infer__cpu_found(), 256);
        memcpy(raw, coef, (size_t)(ROWS * wide) * sizeof *raw);
        for (i = 0; i < ROWS * n * COLS; i++) was[i] = rest[i];
        memset(&a, 0, sizeof a);
        a.n = n;
        a.x = ops_tensor(&b[0], x, ROWS, COLS, COLS);
        a.rest = ops_tensor(&b[1], rest, ROWS, n * COLS, n * COLS);
        a.coef = ops_tensor(&b[2], coef, ROWS, wide, wide);
        a.base = ops_tensor(&b[3], base, ROWS, COLS, COLS);
        a.scale = &w_scale;
        a.offset = &w_offset;
        a.cut = 1e-3f;
        a.times = 2;
        a.rounds = n;
        a.kind = INFER__STREAMS_JOIN;
        ctx.ops->streams(&ctx, &a);
        a.kind = INFER__STREAMS_SPREAD;
        ctx.ops->streams(&ctx, &a);
        CHECK(infer__ok(&ctx));
        for (r = 0; r < ROWS; r++) {
            for (i = 0; i < 2 * n; i++)
                c[i] = (i < n ? 1 : 2) / (1 + exp(-((double)raw[r * wide + i] * scale[i / n] + offset[i]))) + (i < n ? 1e-3 : 0);
            for (i = 0; i < n; i++) {
                for (j = 0, sum = 0; j < n; j++)
                    sum += m[i][j] = exp((double)raw[r * wide + 2 * n + i * n + j] * scale[2] + offset[2 * n + i * n + j]);
                for (j = 0; j < n; j++) m[i][j] = m[i][j] / sum + 1e-3;
            }
            for (round = 1; round < 2 * n; round++) /* columns, then rows, and so on */
                for (i = 0; i < n; i++) {
                    for (j = 0, sum = 1e-3; j < n; j++) sum += round % 2 ? m[j][i] : m[i][j];
                    for (j = 0; j < n; j++) *(round % 2 ? &m[j][i] : &m[i][j]) /= sum;
                }
            for (col = 0; col < COLS; col++) {
                const double *from = was + r * n * COLS + col;
                for (i = 0, sum = 0; i < n; i++) sum += c[i] * from[i * COLS];
                CHECK(ops_near(base[r * COLS + col], sum, n, 1e-6));
                for (i = 0; i < n; i++) {
                    for (j = 0, sum = c[n + i] * x[r * COLS + col]; j < n; j++) sum += m[j][i] * from[j * COLS];
                    CHECK(ops_near(rest[(r * n + i) * COLS + col], sum, n, 1e-6));
                }
            }
        }
        ops_close(&ctx);
        free(x); free(rest); free(coef); free(base); free(offset); free(was); free(raw);
    }
}

/* A table that names an expert which is not there: no model, before anything is computed. */
static void test_compress_table(void) {
    static const int32_t wrong[] = { 4, -1, INT32_MAX, INT32_MIN };
    const char *path = check_data_or_reference("archs/deepseek4-topk-moe.gguf", NULL);
    infer_model *m = NULL;
    size_t n, i, at;
    int32_t was;
    char *data;
    if (!path) SKIP("needs tests/data");
    data = check_read(path, &n);
    CHECK(data && infer_model_open_memory(&m, data, n, NULL, NULL) == INFER_OK);
    if (!m) { free(data); return; }
    at = (size_t)infer__gguf_tensor_find(&m->gguf, "blk.1.ffn_gate_tid2eid.weight")->offset + 100 * sizeof was;
    CHECK(at < n);
    CHECK(infer_model_close(m) == INFER_OK);
    memcpy(&was, data + at, sizeof was);
    for (i = 0; i < INFER__COUNT(wrong); i++) {
        memcpy(data + at, &wrong[i], sizeof was);
        CHECK(infer_model_open_memory(&m, data, n, NULL, NULL) == INFER_OK);
        CHECK_HAS(infer_model_why_not(m), "tensor blk.1.ffn_gate_tid2eid.weight");
        CHECK_HAS(infer_model_why_not(m), "for token 50 is none of 4 experts");
        CHECK(infer_model_close(m) == INFER_OK);
    }
    free(data);
}

static void suite_compress(void) {
    RUN(test_compress_op);
    RUN(test_compress_streams);
    RUN(test_compress_table);
}
