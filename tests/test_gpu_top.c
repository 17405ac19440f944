/* test_gpu_top.c: the k largest values of rows: the device's against the CPU's and against the definition. Part of
 * test_gpu_ops.c, whose helpers it uses. */

/* Rows of n values of few different ones, so that equals meet, of many, and of all signs; the last ones rise and fall. */
static void gpu_top_fill(float *v, int32_t n, int kind) {
    int32_t i;
    for (i = 0; i < n; i++) {
        if (kind == 0) v[i] = 20 * ops_rand();
        if (kind == 1) v[i] = (float)((int32_t)(ops_bits() % 7u) - 5); /* zeros of both signs too */
        if (kind == 1 && ops_bits() % 3u == 0) v[i] = -v[i];
        if (kind == 2) v[i] = -1e-40f * (float)(i % 9); /* smaller than devices count with */
        if (kind == 3) v[i] = (float)(i - n);
        if (kind == 4) v[i] = -3e38f - (float)i;
    }
}

/* rows: so many at once; room: rows that the scratch is for. */
static void gpu_top_case(gpu_pair *p, int32_t rows, int32_t n, int32_t k, int32_t room) {
    gpu_tensor x, y, scratch;
    infer__top_args a;
    float *got;
    int32_t i, j, bad;
    gpu_make(p, &x, rows, n, 3, 1);
    gpu_make(p, &y, rows, 2 * k, 1, 2);
    gpu_make(p, &scratch, 1, (int32_t)infer__top_scratch(n, k) * room, 0, 5);
    for (bad = 0; bad < 4; bad++) {
        for (i = 0; i < rows; i++) gpu_top_fill(infer__row(&x.cpu, i), n, (i + bad + k) % 5);
        if (bad == 1) infer__row(&x.cpu, rows - 1)[n / 2] = infer__bits_f32(0xffc00001u); /* NaN; infinities */
        if (bad == 2) infer__row(&x.cpu, 0)[n - 1] = infer__bits_f32(0x7f800000u);
        if (bad == 3) infer__row(&x.cpu, rows / 2)[0] = infer__bits_f32(0xff800000u);
        gpu_send(p, &x);
        memset(&a, 0, sizeof a);
        a.k = k;
        a.x = x.cpu;
        a.y = y.cpu;
        a.scratch = scratch.cpu;
        p->cpu.ops->top(&p->cpu, &a);
        a.x = x.gpu;
        a.y = y.gpu;
        a.scratch = scratch.gpu;
        p->gpu.ops->top(&p->gpu, &a);
        got = (float *)gpu_fetch(p, &y.on_gpu);
        for (i = 0; i < rows; i++) {
            const float *want = infer__row(&y.cpu, i), *have = got + 2 + (int64_t)i * (2 * k + 1);
            int32_t first;
            memcpy(&first, want, sizeof first);
            CHECK((first == -1) == ((bad == 1 && i == rows - 1) || (bad == 2 && i == 0) || (bad == 3 && i == rows / 2)));
            if (first == -1) CHECK(memcmp(&first, have, sizeof first) == 0);
            else CHECK(memcmp(want, have, (size_t)k * 8) == 0);
            for (j = 0; j < k && first >= 0; j++) { /* the definition: it is where it says, and the order holds */
                int32_t at, before;
                memcpy(&at, have + 2 * j, sizeof at);
                CHECK(at >= 0 && at < n && infer__row(&x.cpu, i)[at] == have[2 * j + 1]);
                if (j == 0) continue;
                memcpy(&before, have + 2 * j - 2, sizeof before);
                CHECK(have[2 * j - 1] > have[2 * j + 1] || (have[2 * j - 1] == have[2 * j + 1] && before < at));
            }
        }
        free(got);
    }
    gpu_drop(p, &x);
    gpu_drop(p, &y);
    gpu_drop(p, &scratch);
}

static void test_gpu_ops_top(void) {
    static const struct { int32_t rows, n, k, room; } cases[] = {
        {2, 1, 1, 1}, {3, 7, 3, 1}, {2, 1030, 1, 2}, {2, 2049, 40, 1}, {1, 4100, 300, 1}, /* for emulated devices */
        {1, 4100, 1000, 1}, {5, 1024, 1, 1}, {5, 1025, 1, 3}, {3, 32000, 1, 1}, {2, 262144, 1, 2}, {4, 2047, 40, 4}, {4, 2048, 2048 / 2, 2},
        {3, 32000, 40, 2}, {1, 262144, 40, 1}, {2, 9000, 1024, 1}, {1, 262144, 1024, 1}, {2, 151936, 2, 1}};
    char name[80];
    gpu_pair p;
    size_t i, n = gpu_small() ? 5 : INFER__COUNT(cases);
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        for (i = 0; i < n; i++) {
            snprintf(name, sizeof name, "%d rows of %d, %d best", (int)cases[i].rows, (int)cases[i].n, (int)cases[i].k);
            check_detail = name;
            gpu_top_case(&p, cases[i].rows, cases[i].n, cases[i].k, cases[i].room);
        }
        check_detail = "";
        gpu_pair_close(&p);
    }
}
