/* test_wkv.c: the op of RWKV's time mixes beside a plain version in double, at every level, for any threads and any cut of the
 * rows; a model of the original code's authors beside what that code gives; hostile sizes. Uses helpers of test_ops.c and
 * test_hostile_keys.c. */

enum { WKV_N = 37 };
typedef struct wkv_shape { int32_t kind, heads, kv_heads, dim, mix; } wkv_shape;
static const wkv_shape wkv_shapes[] = {
    { INFER__WKV_6, 1, 1, 1, 0 },      { INFER__WKV_6, 3, 3, 16, 0 },     { INFER__WKV_6, 2, 2, 40, 0 },
    { INFER__WKV_GATED, 4, 2, 17, 0 }, { INFER__WKV_GATED, 3, 1, 64, 0 }, { INFER__WKV_7, 1, 1, 5, 0 },
    { INFER__WKV_7, 3, 3, 64, 1 },     { INFER__WKV_7, 2, 2, 33, 1 },     { INFER__WKV_7, 1, 1, 256, 1 } };

/* Inputs: r, w, rate, first, mix with all heads, k and v with those of K/V. */
typedef struct wkv_in { float *r, *k, *v, *w, *rate, *first, *mix, *u, *k_k, *k_a; } wkv_in;

/* As papers write it: state[key][value]. */
static void wkv_naive(const wkv_shape *d, const wkv_in *x, double *y, double *bonus) {
    const int32_t n = d->dim, all = d->heads * n, kv = d->kv_heads * n;
    int32_t h, t, i, j;
    for (h = 0; h < d->heads; h++) {
        double *s = (double *)calloc((size_t)n * (size_t)n, sizeof *s);
        for (t = 0; t < WKV_N; t++) {
            const int32_t at = t * all + h * n, from = t * kv + h / (d->heads / d->kv_heads) * n, c = h * n;
            double k[256], v[256], w[256], e[256], b[256], was[256], len = 0, share = 0;
            for (i = 0; i < n; i++) {
                k[i] = x->k[from + i];
                v[i] = x->v[from + i];
                w[i] = d->kind == INFER__WKV_7 ? exp(-exp(-0.5) / (1 + exp(-(double)x->w[at + i]))) : exp(-exp((double)x->w[at + i]));
                e[i] = k[i] * x->k_k[c + i];
                len += e[i] * e[i];
                b[i] = 1 / (1 + exp(-(double)x->rate[at + i]));
                if (d->mix) v[i] += (x->first[at + i] - v[i]) / (1 + exp(-(double)x->mix[at + i]));
                if (d->kind == INFER__WKV_GATED) k[i] *= 1 - w[i];
                if (d->kind == INFER__WKV_7) k[i] *= 1 + (b[i] - 1) * x->k_a[c + i];
                share += x->r[at + i] * k[i] * x->u[c + i];
            }
            for (j = 0; j < n; j++) {
                double sum = 0;
                for (i = 0, was[j] = 0; i < n; i++) was[j] += e[i] / sqrt(len) * s[i * n + j];
                for (i = 0; i < n; i++) {
                    if (d->kind == INFER__WKV_6) sum += x->r[at + i] * (s[i * n + j] + x->u[c + i] * k[i] * v[j]);
                    s[i * n + j] = w[i] * s[i * n + j] + k[i] * v[j];
                    if (d->kind == INFER__WKV_7) s[i * n + j] -= b[i] * e[i] / sqrt(len) * was[j];
                    if (d->kind != INFER__WKV_6) sum += x->r[at + i] * s[i * n + j];
                }
                y[at + j] = d->kind == INFER__WKV_GATED ? sum / sqrt((double)n) : sum;
                bonus[at + j] = share * v[j];
            }
        }
        free(s);
    }
}

/* Rows [from, to) of sequence 0, from cell `in` to cell `out`. */
static void wkv_rows(infer__ctx *c, const infer__wkv_args *a, int32_t from, int32_t to, int32_t in, int32_t out) {
    static int32_t seq[WKV_N];
    infer__wkv_args part = *a;
    infer__tensor *t[9];
    int i;
    t[0] = &part.r; t[1] = &part.k; t[2] = &part.v; t[3] = &part.w; t[4] = &part.y; t[5] = &part.rate; t[6] = &part.first;
    t[7] = &part.mix; t[8] = &part.bonus;
    for (i = 0; i < 9; i++) {
        t[i]->offset += (uint64_t)from * (uint64_t)t[i]->stride * sizeof(float);
        t[i]->rows = to - from;
    }
    c->pass.n_rows = to - from;
    c->pass.n_seq = 1;
    c->pass.seq = seq;
    c->pass.cell_in = &in;
    c->pass.cell_out = &out;
    c->ops->wkv(c, &part);
    CHECK(infer__ok(c));
}

static void test_wkv_op(void) {
    size_t k;
    for (k = 0; k < sizeof wkv_shapes / sizeof *wkv_shapes; k++) {
        const wkv_shape *d = &wkv_shapes[k];
        const int32_t all = d->heads * d->dim, kv = d->kv_heads * d->dim, lanes = infer__ssm_lanes(d->dim, 0);
        const int32_t wide = 2 * all + 3; /* y lies where w was, among other columns; the bonus where v was */
        const size_t cell = (size_t)d->heads * (size_t)lanes * (size_t)lanes, n = (size_t)(WKV_N * all);
        float *w = (float *)calloc((size_t)(WKV_N * wide), sizeof *w), *v = (float *)calloc((size_t)(WKV_N * kv), sizeof *v);
        float *cells = ops_floats((int32_t)(3 * cell)), *got = (float *)calloc(2 * n, sizeof *got), *first = (float *)calloc(2 * n, sizeof *first);
        double *want = (double *)calloc(2 * n, sizeof *want);
        wkv_in x;
        infer__weight u, k_k, k_a;
        infer__buf buf[8];
        int32_t i, t, way;
        x.r = ops_floats(WKV_N * all); x.k = ops_floats(WKV_N * kv); x.v = ops_floats(WKV_N * kv); x.w = ops_floats(WKV_N * all);
        x.rate = ops_floats(WKV_N * all); x.first = ops_floats(WKV_N * all); x.mix = ops_floats(WKV_N * all);
        x.u = ops_floats(all); x.k_k = ops_floats(all); x.k_a = ops_floats(all);
        for (i = 0; i < WKV_N * all; i++) x.w[i] *= 3;
        wkv_naive(d, &x, want, want + n);
        u = ops_weight(ops_f32(), x.u, 1, all);
        k_k = ops_weight(ops_f32(), x.k_k, 1, all);
        k_a = ops_weight(ops_f32(), x.k_a, 1, all);
        for (way = 0; way < 4; way++) { /* the CPU's own level, scalar; three threads; rows cut in pieces */
            infer__ctx c;
            infer__wkv_args a;
            ops_open(&c, way == 2 ? 3 : 1, way == 1 ? 0 : infer__cpu_found(), INFER__WKV_PARTS * lanes * (way == 3 ? 5 : INFER__LANES));
            memset(&a, 0, sizeof a);
            memset(buf, 0, sizeof buf);
            for (t = 0; t < WKV_N; t++) memcpy(w + t * wide + 3, x.w + t * all, (size_t)all * sizeof *w);
            memcpy(v, x.v, (size_t)(WKV_N * kv) * sizeof *v);
            a.r = ops_tensor(&buf[0], x.r, WKV_N, all, all);
            a.k = ops_tensor(&buf[1], x.k, WKV_N, kv, kv);
            a.v = ops_tensor(&buf[2], v, WKV_N, kv, kv);
            a.w = a.y = ops_tensor(&buf[3], w + 3, WKV_N, all, wide);
            if (d->kind == INFER__WKV_7) {
                a.bonus = a.v;
                a.rate = ops_tensor(&buf[4], x.rate, WKV_N, all, all);
                a.k_k = &k_k;
                a.k_a = &k_a;
            }
            if (d->kind != INFER__WKV_GATED) a.u = &u;
            if (d->mix) {
                a.first = ops_tensor(&buf[5], x.first, WKV_N, all, all);
                a.mix = ops_tensor(&buf[6], x.mix, WKV_N, all, all);
            }
            buf[7].host = cells;
            buf[7].bytes = 3 * cell * sizeof(float);
            a.cells = &buf[7];
            a.kind = d->kind;
            a.heads = d->heads;
            a.kv_heads = d->kv_heads;
            a.dim = d->dim;
            if (way == 3) {
                wkv_rows(&c, &a, 0, 1, -1, 0);
                wkv_rows(&c, &a, 1, 20, 0, 1);
                wkv_rows(&c, &a, 20, WKV_N, 1, 2);
            } else wkv_rows(&c, &a, 0, WKV_N, -1, 0);
            for (t = 0; t < WKV_N; t++) memcpy(got + t * all, w + t * wide + 3, (size_t)all * sizeof *w);
            if (d->kind == INFER__WKV_7) memcpy(got + n, v, n * sizeof *v);
            for (i = 0; i < (d->kind == INFER__WKV_7 ? 2 : 1) * (int32_t)n; i++) CHECK(ops_near(got[i], want[i], 1, 2e-5));
            if (way == 0) memcpy(first, got, 2 * n * sizeof *got);
            if (way > 1) CHECK(memcmp(first, got, 2 * n * sizeof *got) == 0);
            ops_close(&c);
        }
        free(x.r); free(x.k); free(x.v); free(x.w); free(x.rate); free(x.first); free(x.mix); free(x.u); free(x.k_k); free(x.k_a);
        free(w); free(v); free(cells); free(got); free(first); free(want);
    }
}

/* Logits of the original RWKV code after "in and a quote before it, in float32: 12 layers, a vocabulary of bytes. */
static void test_wkv_original(void) {
    const char *path = check_data_or_reference("models/tiny-rwkv7-834K.F32.gguf", NULL);
    const char *json = check_data_or_reference("models/tiny-rwkv7-834K.expected-logits.json", NULL);
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_session_params sp;
    infer_token ids[4];
    float want[256];
    char *text, *at;
    size_t n = 0;
    int i;
    if (!path || !json) SKIP("needs INFER_TEST_DATA");
    memset(&sp, 0, sizeof sp);
    CHECK((text = check_read(json, NULL)) != NULL);
    CHECK((at = strstr(text, "\"logits\": [")) != NULL);
    for (i = 0, at += 10; i < 256; i++) want[i] = strtof(at + 1, &at);
    CHECK(infer_model_open(&m, path, NULL, NULL) == INFER_OK);
    CHECK(infer_session_create(&s, m, &sp, NULL) == INFER_OK);
    if (s) {
        CHECK(infer_tokenize(m, "\"in", 3, 0, ids, 4, &n, NULL) == INFER_OK && n == 3);
        CHECK(ids[0] == 34 && ids[1] == 105 && ids[2] == 110);
        CHECK(infer_session_eval(s, ids, 3) == INFER_OK);
        CHECK(check_nmse(infer_session_logits(s, -1), want, 256) < 1e-9);
        if (getenv("CHECK_VERBOSE")) printf("tiny-rwkv7-834K nmse %.3g\n", check_nmse(infer_session_logits(s, -1), want, 256));
    }
    infer_session_destroy(s);
    infer_model_close(m);
    free(text);
}

/* Sizes of the file that do not fit: an error that names the key or the tensor. */
static void test_wkv_hostile(void) {
    static const struct { const char *file, *key; int64_t value; const char *says; } cases[] = {
        { "rwkv6-rescale-dense", "rescale_every_n_layers", 1025, "rescale_every_n_layers" },
        { "rwkv6-dense", "wkv.head_size", 0, "wkv.head_size" },
        { "rwkv6-dense", "wkv.head_size", 48, "wkv.head_size: does not divide embedding_length" },
        { "rwkv6-dense", "wkv.head_size", 0xffffffff, "wkv.head_size" },
        { "rwkv6-dense", "wkv.head_size", 32, NULL },
        { "rwkv6-dense", "token_shift_count", 1, "token_shift_count is 1" },
        { "rwkv6-dense", "time_mix_extra_dim", 0, "time_mix_extra_dim" },
        { "rwkv6-dense", "time_mix_extra_dim", 65536, "time_mix_w1" },
        { "rwkv6-dense", "time_decay_extra_dim", 17, "time_mix_decay_w1" },
        { "rwkv6-dense", "time_decay_extra_dim", 65537, "time_decay_extra_dim" },
        { "rwkv6-dense", "attention.head_count", 3, "attention.head_count: wkv.head_size says another one" },
        { "rwkv6-dense", "attention.head_count", 2, NULL },
        { "rwkv6-dense", "feed_forward_length", 0, "channel_mix_" },
        { "rwkv6-dense", "embedding_length", 64, "token_embd" },
        { "rwkv6qwen2-dense", "attention.head_count_kv", 3, "attention.head_count_kv: does not fit" },
        { "rwkv6qwen2-dense", "attention.head_count_kv", 2, "time_mix_key.weight" },
        { "rwkv6qwen2-dense", "rescale_every_n_layers", 2, "rescale_every_n_layers" },
        { "rwkv6qwen2-dense", "token_shift_count", 2, "token_shift_count is 2" },
        { "rwkv7-dense", "attention.decay_lora_rank", 0, "attention.decay_lora_rank" },
        { "rwkv7-dense", "attention.iclr_lora_rank", 15, "time_mix_a1" },
        { "rwkv7-dense", "attention.value_residual_mix_lora_rank", 9, "blk.1.time_mix_v1" },
        { "rwkv7-dense", "attention.gate_lora_rank", 0, "time_mix_g1" },
        { "rwkv7-dense", "attention.head_count_kv", 1, "attention.head_count_kv: does not fit" },
        { "rwkv7-dense", "rescale_every_n_layers", 2, "rescale_every_n_layers" } };
    size_t n = 0, size, i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[96], key[96], *data, *file;
        const char *path;
        infer_model *m = NULL;
        infer_model_info info;
        gguf_writer w;
        snprintf(name, sizeof name, "archs/%s.gguf", cases[i].file);
        snprintf(key, sizeof key, "%.*s.%s", (int)strcspn(cases[i].file, "-"), cases[i].file, cases[i].key);
        check_detail = key;
        if ((path = check_data_or_reference(name, NULL)) == NULL) SKIP("needs INFER_TEST_DATA");
        data = check_read(path, &n);
        gw_init(&w);
        gw_int(&w, key, GW_U32, cases[i].value);
        file = keys_file(data, n, &w, key, &size);
        CHECK(file && infer_model_open_memory(&m, file, size, NULL, NULL) == INFER_OK);
        if (m) {
            CHECK(infer_model_get_info(m, &info) == INFER_OK && info.computes == !cases[i].says);
            if (cases[i].says) CHECK_HAS(infer_model_why_not(m), cases[i].says);
        }
        infer_model_close(m);
        free(file);
        free(data);
    }
}

static void suite_wkv(void) {
    RUN(test_wkv_op);
    RUN(test_wkv_original);
    RUN(test_wkv_hostile);
}
