/* test_gpu_few.c: attention for few rows on tensor cores (kernels/special/attention/row.k) against the CPU's, with every way of
 * cutting positions into parts, and done again from a recording while the number of parts changes. Part of
 * test_gpu_ops.c, after test_gpu_attention.c, whose helpers it uses. */

/* 1 when the device has the kernel for this type of caches; then it must have run. */
static int gpu_few_has(gpu_att *o) {
    return infer__gpu_find(o->p.gpu.run, INFER__MODULE_FLASH_FEW, o->t->type) != NULL;
}
static int gpu_few_ran(gpu_att *o) {
    int32_t kernel = o->t->dim_k == 64 ? INFER__K_FLASH_FEW64 : INFER__K_FLASH_FEW128;
    int ran = gpu_ran(&o->p, kernel);
    memset(o->p.gpu.run->kernels, 0, sizeof o->p.gpu.run->kernels);
    return ran;
}

static void gpu_few_case(int device, const ops_att *t, int32_t len, int32_t n, int mixed) {
    gpu_att o;
    gpu_att_open(&o, device, t, len, n);
    gpu_att_rows(&o, mixed);
    o.p.gpu.exact = 0;
    gpu_attend(&o, 0);
    gpu_attend(&o, 1);
    gpu_near(&o.p, &o.y, 1, NULL);
    CHECK(gpu_few_ran(&o) == gpu_few_has(&o));
    gpu_att_sinks(&o, len % 2 ? OPS_LOW_SINK : 1);
    if (gpu_few_has(&o)) { /* exact: by the kernel that is the definition */
        o.p.gpu.exact = 1;
        gpu_few_ran(&o);
        gpu_attend(&o, 1);
        CHECK(!gpu_few_ran(&o));
        gpu_attend(&o, 0);
        gpu_near(&o.p, &o.y, 1, NULL);
    }
    gpu_att_close(&o);
}

static void test_gpu_few(void) {
    static const ops_att shapes[] = { /* 8 heads of a group and fewer, several groups; windows; what changes scores */
        {4, 2, 64, 64, 0, 0, 0, 0, 0},     {12, 1, 128, 128, 0, 0, 0, 0, 0},  {3, 3, 64, 64, 33, 0, 0, 0, 0},
        {8, 1, 128, 128, 100, 0, 5, 0, 0}, {6, 2, 64, 64, 0, 0, 0, 8, 0.5f}, {2, 2, 128, 128, 0, 0, 0, 0, 0},
    };
    static const int32_t lens[] = {1, 16, 17, 64, 65, 130, 300, 1100};
    char name[80];
    size_t i, k;
    int32_t type;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++)
        for (type = INFER_KV_F16; type <= INFER_KV_Q4_0; type++)
            for (i = 0; i < (gpu_small() ? 1 : INFER__COUNT(shapes)); i++)
                for (k = 0; k < (gpu_small() ? 3 : INFER__COUNT(lens)); k++) {
                    ops_att t = shapes[i];
                    t.type = type;
                    snprintf(name, sizeof name, "cache type %d, shape %d, %d positions", (int)type, (int)i, (int)lens[k]);
                    check_detail = name;
                    if (lens[k] > 300 && (i + (size_t)type) % 3) continue; /* one of each will do */
                    gpu_few_case(d, &t, lens[k], 1 + (int32_t)(i + k) % 4, (int)(k % 2));
                    if (k == 5) gpu_few_case(d, &t, lens[k], 13, 1); /* rows that are no tiles */
                }
    check_detail = "";
}

/* One launch, recorded, for all positions that its grid has room for: as many groups come as the row has parts, and the
 * counters are 0 again after each. */
static void gpu_few_replay_case(int device, int32_t type) {
    static const int32_t places[] = {299, 257, 511, 320, 321, 256, 384, 448, 510, 300};
    ops_att t = {8, 2, 64, 64, 0, 0, 0, 0, 0};
    const infer__driver *driver;
    void *recording = NULL, *queue;
    infer_error err;
    gpu_att o;
    size_t i;
    t.type = type;
    infer__error_clear(&err);
    gpu_att_open(&o, device, &t, 512, 1);
    gpu_att_rows(&o, 0);
    o.p.gpu.exact = 0;
    o.p.cpu.pass.pos[0] = places[0];
    gpu_begin(&o.p);
    driver = o.p.gpu.run->driver;
    queue = o.p.gpu.run->queue;
    if (driver->record) {
        CHECK(driver->record(queue, &err) == INFER_OK);
        gpu_attend(&o, 1);
        CHECK(driver->record_end(queue, &recording, &err) == INFER_OK);
        CHECK(gpu_few_ran(&o) == gpu_few_has(&o));
    }
    for (i = 0; i < INFER__COUNT(places) && recording; i++) {
        o.p.cpu.pass.pos[0] = places[i];
        o.p.cpu.pass.seq[0] = (int32_t)i % 2;
        gpu_begin(&o.p);
        gpu_send(&o.p, &o.y); /* every value has to be written anew */
        gpu_attend(&o, 0);
        CHECK(driver->replay(queue, recording, &err) == INFER_OK);
        gpu_near(&o.p, &o.y, 1, NULL);
    }
    if (recording) driver->recording_close(queue, recording);
    gpu_att_close(&o);
}

static void test_gpu_few_replay(void) {
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_few_replay_case(d, INFER_KV_F16);
        if (!gpu_small()) gpu_few_replay_case(d, INFER_KV_Q8_0);
    }
}
