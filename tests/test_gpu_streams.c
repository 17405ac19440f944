/* test_gpu_streams.c: several residual streams and sparse activations on devices against the CPU. Part of test_gpu_ops.c,
 * whose helpers it uses. */

static void gpu_streams_case(gpu_pair *p, int32_t kind, int32_t rows, int32_t n, int32_t cols) {
    enum { X, REST, BASE, COEF, SCALED, ALL };
    gpu_tensor t[ALL];
    gpu_weight scale, offset;
    infer__streams_args a;
    char name[80];
    const int beside = kind >= INFER__STREAMS_JOIN;
    const int32_t coefs = cols % 2 ? (2 + n) * n : 2 * n; /* mixed or not */
    int32_t i, gpu;
    snprintf(name, sizeof name, "kind %d, %d rows of %d streams of %d", (int)kind, (int)rows, (int)n, (int)cols);
    check_detail = name;
    memset(&scale, 0, sizeof scale);
    memset(&offset, 0, sizeof offset);
    memset(&a, 0, sizeof a);
    gpu_make(p, &t[X], rows, cols, 2, 1);
    gpu_make(p, &t[REST], beside ? rows : (n - 1) * rows, beside ? n * cols : cols, 1, 3);
    gpu_make(p, &t[BASE], rows, kind == INFER__STREAMS_KEYED ? n * cols : cols, 0, 2);
    gpu_make(p, &t[COEF], rows, beside ? coefs : kind == INFER__STREAMS_PREDICT ? n * n : n, 3, 0);
    gpu_make(p, &t[SCALED], rows, cols, 1, 1);
    if (kind == INFER__STREAMS_MATCH) memset(infer__row(&t[REST].cpu, 0), 0, (size_t)cols * sizeof(float)); /* of length 0 */
    for (i = 0; i < ALL; i++) gpu_send(p, &t[i]);
    a.kind = kind;
    a.n = n;
    a.cut = 0.4f;
    a.times = 2;
    a.rounds = 1 + rows % 3 * 7;
    if (kind == INFER__STREAMS_CORRECT || kind == INFER__STREAMS_ATTEND) a.scale = gpu_vector_make(p, &scale, 0, cols);
    if (kind == INFER__STREAMS_JOIN) {
        a.scale = gpu_vector_make(p, &scale, 0, 3);
        a.offset = gpu_vector_make(p, &offset, 0, coefs);
    }
    for (gpu = 0; gpu < 2; gpu++) {
        infer__ctx *c = gpu ? &p->gpu : &p->cpu;
        a.x = gpu ? t[X].gpu : t[X].cpu;
        a.rest = gpu ? t[REST].gpu : t[REST].cpu;
        a.base = gpu ? t[BASE].gpu : t[BASE].cpu;
        a.coef = gpu ? t[COEF].gpu : t[COEF].cpu;
        a.scaled = gpu ? t[SCALED].gpu : t[SCALED].cpu;
        c->ops->streams(c, &a);
    }
    for (i = 0; i < ALL; i++) {
        gpu_near(p, &t[i], n + 2, NULL);
        gpu_drop(p, &t[i]);
    }
    gpu_weight_drop(p, &scale);
    gpu_weight_drop(p, &offset);
    check_detail = "";
}

static void test_gpu_ops_streams(void) {
    static const int16_t sizes[][3] = { { 1, 2, 1 }, { 3, 4, 255 }, { 2, 8, 257 }, { 5, 3, 64 }, { 1, 5, 2048 } };
    gpu_pair p;
    int32_t kind;
    size_t i;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        for (kind = INFER__STREAMS_PREDICT; kind <= INFER__STREAMS_KEYED; kind++)
            for (i = 0; i < sizeof sizes / sizeof *sizes; i++) gpu_streams_case(&p, kind, sizes[i][0], sizes[i][1], sizes[i][2]);
        gpu_pair_close(&p);
    }
}
