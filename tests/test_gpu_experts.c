/* test_gpu_experts.c: whole models with mixtures of experts on a device, not exact: matrices of types that tensor cores
 * take, gate and up of one and down of another, and of one that they do not take. Part of test_gpu_models.c.
 *
 * The files of tests/data/archs have matrices of F16: they are encoded anew, in memory. */

/* The file with its F16 matrices as `all`, those of experts' outputs as `down`, where rows are whole blocks; free() it. */
static unsigned char *gpu_experts_file(const char *path, const infer__quant *all, const infer__quant *down, size_t *n) {
    size_t size = 0, at = 24;
    char *file = check_read(path, &size);
    static const infer__report report;
    infer__mem mem;
    infer__gguf g;
    gguf_writer w;
    infer_error err;
    int32_t i;
    infer__mem_init(&mem, NULL, 0);
    CHECK(file && infer__gguf_open_memory(&g, &mem, &report, file, size, &err) == INFER_OK);
    if (check_bad) return NULL;
    while (at < size && memcmp(file + at + 8, g.tensors[0].name, strlen(g.tensors[0].name)) != 0) at++;
    gw_init(&w);
    gw_add(&w.kv, file + 24, at - 24); /* the keys, as they are */
    w.n_kv = (uint64_t)g.n_kv;
    for (i = 0; i < g.n_tensors; i++) {
        infer__gguf_tensor *t = &g.tensors[i];
        const infer__quant *q = t->type->id != 1 ? t->type : strstr(t->name, "ffn_down_exps") ? down : all;
        float *v = (float *)malloc((size_t)(t->rows * t->dims[0]) * sizeof *v);
        uint8_t *to;
        size_t bytes;
        if (t->dims[0] % (uint64_t)q->values) q = t->type;
        bytes = (size_t)(t->rows * t->dims[0] / (uint64_t)q->values * (uint64_t)q->bytes);
        to = (uint8_t *)malloc(bytes);
        CHECK(infer__gguf_read_rows(&g, t, 0, t->rows, v, &err) == INFER_OK);
        q->encode(v, to, (int64_t)(t->rows * t->dims[0]));
        gw_tensor(&w, t->name, (uint32_t)q->id, (uint32_t)t->n_dims, t->dims, to, bytes,
                  q->values == 1 ? (size_t)q->bytes : 1);
        free(to);
        free(v);
    }
    infer__gguf_close(&g);
    free(file);
    return gw_finish(&w, n);
}

/* Rows that are farther from the others than rounding to 8 bits brings them: another expert was chosen. */
static int32_t gpu_experts_far(const float *out, const float *exact, int32_t rows, int32_t width, double limit) {
    int32_t i, off = 0;
    for (i = 0; i < rows; i++)
        off += !(check_nmse(out + (int64_t)i * width, exact + (int64_t)i * width, (size_t)width) <= limit);
    return off;
}

/* Against exact a device is no worse than the CPU's own rounding by much: a prompt at once, three times (the third may be
 * a recording). A prompt's halves are much better than the CPU's 8 bits, and than BF16; `tips`: in all rows but one or two,
 * where the choice of experts tips over. Then by 9 and at last 6: activations of dense products are quantised there, so choices tip
 * over here and there. */
static void gpu_experts_case(const char *path, int tips, const infer__quant *all, const infer__quant *down) {
    enum { N = 150 };
    size_t n = 0, size;
    unsigned char *file = gpu_experts_file(path, all, down, &size);
    float *out = NULL, *first = NULL;
    double rounded = 0;
    int32_t i, g;
    arch_ref r;
    if (!file) return;
    memset(&r, 0, sizeof r);
    r.n = N;
    for (g = 0; g < 3; g++) { /* exact on the CPU, quantised there, quantised on the device */
        infer_model_params p;
        infer_model *m = NULL;
        infer_session *s;
        infer_error e;
        memset(&p, 0, sizeof p);
        p.backend = g == 2 ? check_backend() : INFER_CPU;
        p.exact = g == 0;
        p.allocator.alloc = check_alloc;
        p.allocator.free = check_free;
        if (infer_model_open_memory(&m, file, size, &p, &e)) {
            check_note(__FILE__, __LINE__, e.message);
            break;
        }
        if (g == 0) {
            r.width = m->hp.n_vocab;
            n = (size_t)r.n * (size_t)r.width;
            r.ids = (int32_t *)calloc(N, sizeof *r.ids);
            r.x = (float *)calloc(3 * n, sizeof *r.x);
            out = r.x + n;
            first = out + n;
            for (i = 0; i < N; i++) r.ids[i] = (i * 131 + 7) % r.width;
        }
        s = arch_session(m, 1, 0);
        if (s && g < 2) arch_eval(s, &r, 0, N, N, g ? out : r.x);
        if (g == 1) rounded = check_nmse(out, r.x, n);
        for (i = 0; s && g == 2 && i < 4; i++) {
            CHECK(infer_session_rewind(s, 0) == INFER_OK);
            memset(out, 0, n * sizeof *out);
            arch_eval(s, &r, 0, N, i < 3 ? N : 9, out);
            if (i < 3 && tips && all->id != 30 && down->id != 30)
                CHECK(gpu_experts_far(out, r.x, N, r.width, 3e-5) <= N / 50);
            else if (i < 3)
                CHECK(check_nmse(out, r.x, n) <= (all->id != 30 && down->id != 30 ? 1e-5 : 1.2 * rounded + 1e-6));
            else
                CHECK(gpu_experts_far(out, r.x, N, r.width, 3e-4 + 2 * rounded) <= N / 20);
            if (i == 0) memcpy(first, out, n * sizeof *out);
            else if (i < 3) CHECK(memcmp(first, out, n * sizeof *out) == 0);
        }
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    free(r.ids);
    free(r.x);
    free(file);
}

static void test_gpu_model_experts(void) {
    static const struct { const char *path; int tips; } files[] = {
        {"archs/qwen3moe-norm-moe.gguf", 0}, {"archs/llama-mixtral-moe.gguf", 0}, {"archs/granite-moe.gguf", 0},
        {"archs/gpt-oss-moe.gguf", 0}, {"archs/hy_v3-moe.gguf", 1}};
    static const int types[][2] = {{8, 8}, {2, 7}, {8, 30}, {30, 1}, {1, 8}, {6, 0}}; /* F32: not on tensor cores */
    size_t i;
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    for (i = 0; i < INFER__COUNT(types) * INFER__COUNT(files); i += (size_t)(gpu_cases_every() * check_every(7))) { /* every 7th: each file still */
        const infer__quant *all = infer__quant_find(types[i / INFER__COUNT(files)][0], NULL);
        const infer__quant *down = infer__quant_find(types[i / INFER__COUNT(files)][1], NULL);
        char detail[120];
        snprintf(detail, sizeof detail, "%s, %s and %s", files[i % INFER__COUNT(files)].path, all->name, down->name);
        check_detail = detail;
        gpu_experts_case(check_data(files[i % INFER__COUNT(files)].path), files[i % INFER__COUNT(files)].tips, all, down);
    }
    check_detail = "";
    CHECK(check_live == 0);
}
