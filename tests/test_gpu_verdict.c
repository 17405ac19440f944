/* test_gpu_verdict.c: what models make of a device's check: `auto` leaves a device with a wrong kernel alone, where it was
 * demanded it is an error, the caller's cache keeps the verdict. On the API under test (test_gpu_models.c), its driver
 * made wrong by test_gpu_check.c. */

/* ---- a cache of a caller ----------------------------------------------------------------------------------------- */

static struct { char key[200]; unsigned char data[1024]; size_t n; int puts, lies; } verdict_kept;

static size_t verdict_get(void *user, const char *key, void *dst, size_t cap) {
    (void)user;
    if (!strstr(key, "-check") || !verdict_kept.n || strcmp(key, verdict_kept.key) != 0) return 0;
    if (verdict_kept.lies && dst) return verdict_kept.n; /* and nothing is copied */
    if (dst && cap >= verdict_kept.n) memcpy(dst, verdict_kept.data, verdict_kept.n);
    return verdict_kept.n;
}

static void verdict_put(void *user, const char *key, const void *data, size_t n) {
    (void)user;
    if (!strstr(key, "-check") || n > sizeof verdict_kept.data) return;
    snprintf(verdict_kept.key, sizeof verdict_kept.key, "%s", key);
    memcpy(verdict_kept.data, data, n);
    verdict_kept.n = n;
    verdict_kept.puts++;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static const infer__driver *verdict_real(void) { return infer__driver_find(infer__drivers, check_backend()); }

/* A model on the device whose kernel `kernel` is wrong in this way; NULL when it does not open. */
static const char *verdict_model = "models/stories260K.F32.gguf";
static infer_model *verdict_open(int how, const char *kernel, int32_t backend, int unchecked, infer_error *e) {
    const infer__driver *apis[2];
    infer_model_params p;
    infer_model *m = NULL;
    infer_result r;
    memset(&p, 0, sizeof p);
    apis[0] = wrong_driver(verdict_real(), how, kernel);
    apis[1] = NULL;
    p.backend = backend;
    p.gpu_unchecked = unchecked;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    p.log = places_log;
    p.cache.get = verdict_get;
    p.cache.put = verdict_put;
    places_said[0] = 0;
    infer__error_clear(e);
    r = infer__model_start(&m, &p, INFER_VERSION, e);
    if (!r) {
        m->apis = apis;
        r = infer__gguf_open_path(&m->gguf, &m->mem, &m->report, check_data(verdict_model), 1, e);
        r = infer__model_finish(&m, NULL, r, e);
    }
    CHECK((r == INFER_OK) == (m != NULL));
    if (m) m->apis = NULL; /* the list above is gone soon */
    return m;
}

/* Layers on the device, -1 when the model does not open; and it is closed. */
static int32_t verdict_layers(int how, const char *kernel, int32_t backend, int unchecked, infer_error *e) {
    infer_model *m = verdict_open(how, kernel, backend, unchecked, e);
    int32_t n = m ? m->device_layers : -1;
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0 && wrong.n_open == 0);
    return n;
}

static void verdict_reset(void) {
    memset(&verdict_kept, 0, sizeof verdict_kept);
    check_live = check_fail_at = 0;
    wrong.identity = 1;
}

static void test_gpu_verdict_auto(void) {
    infer_error e;
    GPU_NEEDED();
    verdict_reset();
    CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) == 5);
    CHECK_HAS(places_said, ": its kernels compute what the CPU does (checked in ");
    verdict_reset();
    CHECK(verdict_layers(WRONG_IDLE, "k_add", INFER_AUTO, 0, &e) == 0);
    CHECK_HAS(places_said, "auto: not ");
    CHECK_HAS(places_said, "kernel k_add (program base, check \"add\": 3 rows of 300) differs from the CPU by ");
    CHECK_HAS(places_said, "auto: the CPU\n");
    verdict_reset();
    CHECK(verdict_layers(WRONG_FAILS, "k_attention", INFER_AUTO, 0, &e) == 0);
    CHECK_HAS(places_said, "kernel k_attention (program kv_f16, ");
    CHECK_HAS(places_said, "the launch fails");
    verdict_reset();
    CHECK(verdict_layers(WRONG_IDLE, "k_moe_route", INFER_AUTO, 0, &e) == 5); /* which this model does not use */
    verdict_reset();
    CHECK(verdict_layers(WRONG_IDLE, "k_add", INFER_AUTO, 1, &e) == 5 && wrong.launches == 0);
}

static void test_gpu_verdict_demanded(void) {
    infer_error e;
    GPU_NEEDED();
    verdict_reset();
    CHECK(verdict_layers(WRONG_NOT, "", check_backend(), 0, &e) == 5);
    verdict_reset();
    CHECK(verdict_layers(WRONG_NAN, "k_add", check_backend(), 0, &e) == -1);
    CHECK(e.code == INFER_ERR_DEVICE);
    CHECK_HAS(e.message, "kernel k_add (program base, check \"add\": 3 rows of 300) gives no number");
    CHECK(verdict_layers(WRONG_NAN, "k_add", check_backend(), 1, &e) == 5);
}

/* A demanded device by the public call. */
static void test_gpu_verdict_public(void) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    GPU_NEEDED();
    memset(&p, 0, sizeof p);
    p.device = gpu_device();
    check_gpu_checked = 1;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &p, &e) == INFER_OK);
    check_gpu_checked = 0;
    CHECK(m && m->device_layers == 5);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* The cache keeps what the check said, right or wrong, for this device, driver and version; not that a launch failed. */
static void test_gpu_verdict_kept(void) {
    infer_error e;
    GPU_NEEDED();
    verdict_reset();
    CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) == 5);
    CHECK(wrong.launches > 20 && verdict_kept.puts == 1);
    CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) == 5);
    CHECK(wrong.launches == 0 && verdict_kept.puts == 1); /* nothing was run */
    CHECK(verdict_layers(WRONG_NOT, "", check_backend(), 0, &e) == 5 && wrong.launches == 0);
    wrong.identity = 2; /* another driver */
    CHECK(verdict_layers(WRONG_IDLE, "k_add", INFER_AUTO, 0, &e) == 0);
    CHECK(wrong.launches > 0 && verdict_kept.puts == 2);
    CHECK(verdict_layers(WRONG_IDLE, "k_add", INFER_AUTO, 0, &e) == 0 && wrong.launches == 0);
    CHECK_HAS(places_said, "kernel k_add (program base, ");
    CHECK(verdict_layers(WRONG_IDLE, "k_add", check_backend(), 0, &e) == -1 && wrong.launches == 0);
    CHECK_HAS(e.message, "kernel k_add (program base, ");
    CHECK(verdict_layers(WRONG_IDLE, "k_add", check_backend(), 1, &e) == 5);
    verdict_reset();
    CHECK(verdict_layers(WRONG_FAILS, "k_add", INFER_AUTO, 0, &e) == 0 && verdict_kept.puts == 0);
    CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) == 5 && verdict_kept.puts == 1);
}

/* The tier of the API's best device. */
static int32_t verdict_tier(void) {
    int32_t tier = 0;
    infer__mem mem;
    infer__gpu *g = NULL;
    infer_error e;
    infer__mem_init(&mem, NULL, 0);
    infer__error_clear(&e);
    CHECK(infer__gpu_open(&g, &mem, &gpu_report, check_backend(), -1, NULL, &e) == INFER_OK);
    if (g) tier = infer__gpu_driver(g)->tier(infer__gpu_device(g));
    infer__gpu_close(g);
    return tier;
}

/* A wrong kernel of a special program: the device is taken without that program, and the cache knows it. */
static void test_gpu_verdict_special(void) {
    static const struct { int kernel; const char *program; } rows[] = {
        {INFER__K_FEW8, "few_q8_0"}, {INFER__K_FEW64, "few_q8_0"}, {INFER__K_MMA64, "mma_q8_0"}, {INFER__K_WGMMA128, "wgmma_q8_0"},
        {INFER__K_MATRIX, "matrix_q8_0"}};
    const int32_t form = verdict_real()->form;
    char used[INFER__KERNEL_COUNT]; /* those of matrix units, where the device has them */
    infer_error e;
    size_t i;
    int32_t layers;
    char want[80];
    GPU_NEEDED();
    if (form != INFER__FORM_PTX && form != INFER__FORM_HIP) { /* no others may lack a program that this device has */
        verdict_reset();
        CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) > 0 && !strstr(places_said, "; going on without "));
        return;
    }
    verdict_model = "models/TinyStories-656K.Q8_0.gguf";
    verdict_reset();
    layers = verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e);
    CHECK(layers > 0);
    for (i = 0; i < INFER__KERNEL_COUNT; i++) used[i] = wrong.used[i] != 0;
    CHECK(used[INFER__K_FEW8] == (verdict_tier() >= 80)); /* else nothing below is tested */
    CHECK(used[INFER__K_MATRIX] == (form == INFER__FORM_HIP && verdict_tier() == 1));
    for (i = 0; i < INFER__COUNT(rows); i++) {
        const char *kernel = check_detail = INFER__KERNELS[rows[i].kernel].name;
        if (!used[rows[i].kernel]) continue;
        snprintf(want, sizeof want, "; going on without %s\n", rows[i].program);
        verdict_reset();
        CHECK(verdict_layers(WRONG_IDLE, kernel, INFER_AUTO, 0, &e) == layers);
        CHECK_HAS(places_said, want);
        CHECK_HAS(places_said, ": its kernels compute what the CPU does (checked in ");
        CHECK(verdict_kept.puts == 1);
        CHECK(verdict_layers(WRONG_IDLE, kernel, check_backend(), 0, &e) == layers && wrong.launches == 0);
        verdict_reset();
        CHECK(verdict_layers(WRONG_FAILS, kernel, INFER_AUTO, 0, &e) == layers);
        CHECK_HAS(places_said, want);
        CHECK(verdict_kept.puts == 0); /* a launch that failed need not fail again */
    }
    verdict_model = "models/stories260K.F32.gguf";
}

/* Whatever else lies under the key: the check runs. */
static void test_gpu_verdict_hostile(void) {
    unsigned char good[1024];
    size_t n, i;
    infer_error e;
    GPU_NEEDED();
    verdict_reset();
    CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) == 5 && verdict_kept.n > 20);
    n = verdict_kept.n;
    memcpy(good, verdict_kept.data, n);
    for (i = 0; i < 24 && check_bad < 5; i += i < 16 && gpu_every() > 1 ? 8 : 1) {
        memcpy(verdict_kept.data, good, n);
        verdict_kept.n = n;
        verdict_kept.lies = 0;
        if (i < 17) verdict_kept.data[i] ^= 0x11;       /* mark, hash, verdict */
        else if (i == 17) verdict_kept.data[n - 1] = 7; /* the text's end */
        else if (i == 18) memset(verdict_kept.data, 0xff, n);
        else if (i == 19) verdict_kept.n = n - 1;
        else if (i == 20) verdict_kept.n = 1;
        else if (i == 21) verdict_kept.n = sizeof verdict_kept.data; /* more than a verdict has */
        else if (i == 22) verdict_kept.lies = 1;
        else memset(verdict_kept.data + 17, 'x', n - 17);
        CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) == 5);
        CHECK(wrong.launches > 20);
    }
    memcpy(verdict_kept.data, good, n);
    verdict_kept.n = n;
    verdict_kept.lies = 0;
    CHECK(verdict_layers(WRONG_NOT, "", INFER_AUTO, 0, &e) == 5 && wrong.launches == 0);
}

/* Everything fails once while `auto` checks: the CPU, with a line in the log. The made-up device's kernels do nothing. */
static void test_gpu_verdict_faults(void) {
    infer_model_params p;
    long i, n = 1;
    memset(&p, 0, sizeof p);
    check_gpu_checked = 1;
    for (i = 0; i <= n && check_bad < 5; i++) {
        infer_model *m;
        infer_error e;
        fake_reset(i);
        places_device("Card", 1 << 30);
        m = places_fake(&p, INFER_OK, &e);
        if (i == 0) n = fake.calls;
        CHECK(m && m->device_layers == 0);
        CHECK_HAS(places_said, "auto: not opencl: Card: ");
        places_fake_close(m);
    }
    check_gpu_checked = 0;
    CHECK(n > 20);
}

static void test_gpu_verdict_api(void) {
    infer_error e;
    CHECK(infer_device_check(0, NULL, NULL, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "device 0 is no GPU");
    CHECK(infer_device_check(-1, NULL, NULL, NULL, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_device_check(infer_device_count(), NULL, NULL, NULL, &e) == INFER_ERR_ARGUMENT);
}

static void suite_gpu_verdict(void) {
    RUN_DEVICE(test_gpu_verdict_auto);
    RUN_DEVICE(test_gpu_verdict_demanded);
    RUN_DEVICE(test_gpu_verdict_public);
    RUN_DEVICE(test_gpu_verdict_kept);
    RUN_DEVICE(test_gpu_verdict_special);
    RUN_DEVICE(test_gpu_verdict_hostile);
    RUN(test_gpu_verdict_faults);
    RUN(test_gpu_verdict_api);
}
