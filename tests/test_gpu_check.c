/* test_gpu_check.c: the check that a device passes before it is taken: every kernel has a case, right ones pass, a wrong
 * one is named. Part of test_gpu_ops.c, whose devices it uses; what models make of it is in test_gpu_verdict.c. */

/* ---- a driver with one wrong kernel ------------------------------------------------------------------------------ */

enum { WRONG_NOT, WRONG_IDLE, WRONG_FAILS, WRONG_NAN, WRONG_BESIDE, WRONG_BLIND };
static struct {
    const infer__driver *real;
    infer__driver driver;  /* the copy: the calls of the real one, but for those below */
    int how;
    const char *kernel;    /* which one is wrong: "k_add" */
    size_t field;          /* WRONG_BLIND: where in attention's args the field is that no kernel looks at */
    long blind;            /* launches in which that field said something */
    struct { void *kernel; const char *name; } open[1024];
    int n_open;
    char used[INFER__KERNEL_COUNT]; /* that were launched */
    long launches;
    uint64_t identity;
} wrong;

static infer_result wrong_kernel_open(void **kernel, void *queue, void *program, const char *name, int32_t group,
                                      infer_error *err) {
    infer_result r = wrong.real->kernel_open(kernel, queue, program, name, group, err);
    if (!r && wrong.n_open < 1024) {
        wrong.open[wrong.n_open].kernel = *kernel;
        wrong.open[wrong.n_open++].name = name;
    }
    return r;
}

static void wrong_kernel_close(void *queue, void *kernel) {
    int i;
    for (i = 0; i < wrong.n_open && wrong.open[i].kernel != kernel; i++) {}
    if (i < wrong.n_open) wrong.open[i] = wrong.open[--wrong.n_open];
    wrong.real->kernel_close(queue, kernel);
}

static infer_result wrong_launch(void *queue, void *kernel, const uint32_t *groups, int32_t group, const uint64_t *bufs,
                                 int32_t n_bufs, const void *args, uint32_t args_size, infer_error *err) {
    struct infer__k_add add;
    int i, k;
    wrong.launches++;
    for (i = 0; i < wrong.n_open && wrong.open[i].kernel != kernel; i++) {}
    CHECK(i < wrong.n_open);
    for (k = 0; k < INFER__KERNEL_COUNT && i < wrong.n_open; k++)
        if (strcmp(INFER__KERNELS[k].name, wrong.open[i].name) == 0) wrong.used[k] = 1;
    if (wrong.how == WRONG_BLIND && i < wrong.n_open &&
        (strncmp(wrong.open[i].name, "k_attention", 11) == 0 || strncmp(wrong.open[i].name, "k_flash", 7) == 0)) {
        char blind[sizeof(struct infer__k_attention)];
        CHECK(args_size == sizeof blind);
        memcpy(blind, args, sizeof blind);
        wrong.blind += infer__load_u32(blind + wrong.field) != 0;
        memset(blind + wrong.field, 0, 4);
        return wrong.real->launch(queue, kernel, groups, group, bufs, n_bufs, blind, args_size, err);
    }
    if (wrong.how && i < wrong.n_open && strcmp(wrong.open[i].name, wrong.kernel) == 0) {
        if (wrong.how == WRONG_IDLE) return INFER_OK;
        if (wrong.how == WRONG_FAILS) return infer__error(err, INFER_ERR_DEVICE, "the launch fails");
        CHECK(args_size == sizeof add);
        memcpy(&add, args, sizeof add);
        if (wrong.how == WRONG_NAN) add.scale = infer__bits_f32(0x7fc00000u);
        if (wrong.how == WRONG_BESIDE) add.cols++; /* of the values between the rows */
        return wrong.real->launch(queue, kernel, groups, group, bufs, n_bufs, &add, args_size, err);
    }
    return wrong.real->launch(queue, kernel, groups, group, bufs, n_bufs, args, args_size, err);
}

static void wrong_info(int32_t index, infer_device_info *out) {
    wrong.real->info(index, out);
    out->processor = 0; /* `auto` takes it */
}

static uint64_t wrong_identity(void *device) { (void)device; return wrong.identity; }

/* The driver, wrong in this way. */
static const infer__driver *wrong_driver(const infer__driver *real, int how, const char *kernel) {
    wrong.real = real;
    wrong.driver = *real;
    wrong.driver.kernel_open = wrong_kernel_open;
    wrong.driver.kernel_close = wrong_kernel_close;
    wrong.driver.launch = wrong_launch;
    wrong.driver.info = wrong_info;
    wrong.driver.identity = wrong_identity;
    wrong.how = how;
    wrong.kernel = kernel;
    wrong.n_open = 0;
    memset(wrong.used, 0, sizeof wrong.used);
    wrong.launches = wrong.blind = 0;
    return &wrong.driver;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* What the tests below use: few types, and all kinds of kernels. */
static void checked_uses(infer__gpu_uses *u) {
    int32_t i;
    infer__gpu_uses_all(u);
    for (i = 0; i < INFER__QUANTS_MAX; i++)
        if (!infer__quant_row(i) || (infer__quant_row(i)->id != 8 && infer__quant_row(i)->id != 1)) u->types[i] = 0;
    u->kv_types = 1u << INFER_KV_F16;
    u->n_heads = 2;
}

static struct { int rows, bad, not_built; char text[400]; } checked;
static int checked_row(void *user, const infer_kernel_check *row) {
    checked.rows++;
    CHECK(row->program[0] && row->check[0] && (row->verdict != INFER_KERNEL_OK) == (row->message[0] != 0));
    if (row->verdict == INFER_KERNEL_NOT_BUILT) checked.not_built++;
    else CHECK(row->kernels[0] && row->input[0]);
    if (row->verdict == INFER_KERNEL_OK) CHECK(row->error <= row->limit && row->nmse <= row->nmse_limit);
    else if (!checked.bad++)
        snprintf(checked.text, sizeof checked.text, "%s %s: %s: %s %s", row->program, row->check, row->kernels, row->input,
                 row->message);
    return user != NULL; /* a user: stop at once */
}

/* The kernels that the check of everything launches on the made-up device. */
static void checked_fake(infer__apis apis, int32_t backend, int32_t tier, char found[INFER__KERNEL_COUNT]) {
    infer__gpu_uses all;
    infer__mem mem;
    infer__gpu *g;
    infer_error e;
    int32_t verdict, i, k;
    fake_reset(0);
    fake_device(FAKE_OPENCL, "Card", NULL);
    fake_device(FAKE_METAL, "Mac", NULL);
    fake.tier = tier;
    infer__mem_init(&mem, NULL, 0);
    infer__error_clear(&e);
    CHECK(infer__gpu_open_in(apis, &g, &mem, &gpu_report, backend, -1, NULL, &e) == INFER_OK);
    infer__gpu_uses_all(&all);
    memset(&checked, 0, sizeof checked);
    CHECK(infer__gpu_check(g, &all, &mem, checked_row, NULL, &verdict, &e) == INFER_ERR_DEVICE);
    CHECK(verdict == INFER_KERNEL_DIFFERS);
    CHECK(checked.rows > 200 && checked.bad == checked.rows); /* kernels that do nothing: nothing is ok */
    for (k = 0; k < INFER__KERNEL_COUNT; k++)
        for (i = 0; i < 64; i++) found[k] |= strcmp(fake.entries[i], INFER__KERNELS[k].name) == 0;
    CHECK(infer__gpu_used(g) == 0);
    infer__gpu_close(g);
    CHECK(infer__atomic_get(&mem.used) == 0);
    fake_closed();
}

/* Every kernel of kernels/kernels.def is launched by a case of INFER__PROBES, on a device that takes it. */
static void test_gpu_check_covers(void) {
    char found[INFER__KERNEL_COUNT];
    int32_t k;
    memset(found, 0, sizeof found);
    checked_fake(fake_drivers, INFER_OPENCL, 0, found);
    checked_fake(fake_ptx_drivers, INFER_CUDA, 75, found);
    checked_fake(fake_ptx_drivers, INFER_CUDA, 80, found);
    checked_fake(fake_ptx_drivers, INFER_CUDA, 90, found);
    checked_fake(fake_simd_drivers, INFER_METAL, 7, found);
    checked_fake(fake_matrix_drivers, INFER_HIP, 1, found);
    for (k = 0; k < INFER__KERNEL_COUNT; k++) {
        check_detail = INFER__KERNELS[k].name;
        CHECK(found[k]);
    }
    check_detail = "";
}

/* Every call of the API fails once: an error, and nothing is left. */
static void test_gpu_check_calls(void) {
    infer__gpu_uses u;
    infer__mem mem;
    long i, n = 1;
    checked_uses(&u);
    for (i = 0; i <= n && check_bad < 5; i++) {
        infer__gpu *g = NULL;
        infer_error e;
        int32_t verdict = 0;
        infer_result r;
        fake_reset(0);
        fake_device(FAKE_OPENCL, "Card", NULL);
        infer__mem_init(&mem, NULL, 0);
        infer__error_clear(&e);
        CHECK(infer__gpu_open_in(fake_drivers, &g, &mem, &gpu_report, INFER_OPENCL, -1, NULL, &e) == INFER_OK);
        fake.calls = 0;
        fake.fail_at = i;
        r = infer__gpu_check(g, &u, &mem, NULL, NULL, &verdict, &e);
        if (i == 0) n = fake.calls;
        CHECK(r == INFER_ERR_DEVICE || r == INFER_ERR_MEMORY);
        CHECK(e.message[0] && (verdict != INFER_KERNEL_OK || fake.fail_at));
        CHECK(infer__gpu_used(g) == 0);
        infer__gpu_close(g);
        CHECK(infer__atomic_get(&mem.used) == 0);
        fake_closed();
    }
    CHECK(n > 20);
}

/* All kernels of the devices that are here. */
static void test_gpu_ops_check(void) {
    infer__gpu_uses all;
    infer_error e;
    int32_t verdict;
    int d;
    GPU_NEED();
    if (gpu_small()) checked_uses(&all);
    else infer__gpu_uses_all(&all);
    for (d = 0; d < gpu_devices(); d++) {
        infer__gpu *g = gpu_opened[d];
        uint64_t used = infer__gpu_used(g);
        infer__error_clear(&e);
        memset(&checked, 0, sizeof checked);
        CHECK(infer__gpu_check(g, &all, &gpu_mem, checked_row, NULL, &verdict, &e) == INFER_OK);
        CHECK_STR(e.message, "");
        CHECK_STR(checked.text, "");
        CHECK(verdict == INFER_KERNEL_OK && checked.rows > 20 && infer__gpu_used(g) == used);
        memset(&checked, 0, sizeof checked);
        CHECK(infer__gpu_check(g, &all, &gpu_mem, checked_row, &checked, &verdict, &e) == INFER_CANCELLED);
        CHECK(checked.rows == 1);
    }
}

/* Each kernel in turn does nothing: the check says which one. */
static void test_gpu_check_wrong(void) {
    const infer__driver *real;
    infer__gpu_uses u;
    infer_error e;
    int32_t verdict, k;
    char used[INFER__KERNEL_COUNT];
    int d;
    GPU_NEED();
    checked_uses(&u);
    for (d = 0; d < gpu_devices(); d++) {
        infer__gpu *g = gpu_opened[d];
        real = g->driver;
        g->driver = wrong_driver(real, WRONG_NOT, "");
        infer__error_clear(&e);
        CHECK(infer__gpu_check(g, &u, &gpu_mem, NULL, NULL, &verdict, &e) == INFER_OK);
        g->driver = real;
        memcpy(used, wrong.used, sizeof used); /* a device with matrix units has no need of some */
        for (k = 0; k < INFER__KERNEL_COUNT; k++) {
            const infer__kernel_row *row = &INFER__KERNELS[k];
            if (!used[k]) continue;
            if (strcmp(row->name, "k_moe_group") == 0) continue; /* its readers would read anywhere: a device is lost then */
            check_detail = row->name;
            g->driver = wrong_driver(real, WRONG_IDLE, row->name);
            infer__error_clear(&e);
            CHECK(infer__gpu_check(g, &u, &gpu_mem, NULL, NULL, &verdict, &e) == INFER_ERR_DEVICE);
            CHECK(verdict == INFER_KERNEL_DIFFERS);
            CHECK_HAS(e.message, row->name);
            g->driver = real;
            if (gpu_small() && k % 3) k++;
        }
    }
    check_detail = "";
}

/* Other ways to be wrong. */
static void test_gpu_check_ways(void) {
    static const struct { int how, verdict; const char *says; } ways[] = {
        {WRONG_FAILS, INFER_KERNEL_FAILED, "the launch fails"},
        {WRONG_NAN, INFER_KERNEL_DIFFERS, "kernel k_add (program base, check \"add\": 3 rows of 300) gives no number"},
        {WRONG_BESIDE, INFER_KERNEL_DIFFERS, "gives other bits"},
        {WRONG_NOT, INFER_KERNEL_OK, ""}};
    infer__gpu *g;
    infer__gpu_uses u;
    infer_error e;
    int32_t verdict;
    size_t i;
    const infer__driver *real;
    GPU_NEED();
    g = gpu_opened[0];
    real = g->driver;
    checked_uses(&u);
    for (i = 0; i < INFER__COUNT(ways); i++) {
        g->driver = wrong_driver(real, ways[i].how, "k_add");
        infer__error_clear(&e);
        CHECK((infer__gpu_check(g, &u, &gpu_mem, NULL, NULL, &verdict, &e) == INFER_OK) == (ways[i].how == WRONG_NOT));
        CHECK(verdict == ways[i].verdict && (verdict == INFER_KERNEL_OK || strstr(e.message, "k_add")));
        CHECK_HAS(e.message, ways[i].says);
        g->driver = real;
    }
}

/* Attention that does not look at one of its args: windows, limits, sinks, biases, keys behind the row, keys of a source. */
static void test_gpu_check_blind(void) {
#define BLIND(f) offsetof(struct infer__k_attention, f)
    static const struct { const char *name; size_t at; infer__gpu_heads heads; } fields[] = {
        { "window", BLIND(window), { 4, 2, 64, 64, 1, 0, INFER__ROPE_NONE, 0, 0.125f, 0, 0, 0, 0 } },
        { "softcap", BLIND(softcap), { 4, 2, 64, 64, 0, 0, INFER__ROPE_NONE, 0, 0.125f, 2, 0, 0, 0 } },
        { "max_bias", BLIND(max_bias), { 4, 2, 64, 64, 0, 0, INFER__ROPE_NONE, 0, 0.125f, 0, 8, 0, 0 } },
        { "temp_scale", BLIND(temp_scale), { 4, 2, 64, 64, 0, 0, INFER__ROPE_NONE, 0, 0.125f, 0, 0, 0.5f, 0 } },
        { "has_sinks", BLIND(has_sinks), { 4, 2, 64, 64, 0, 1, INFER__ROPE_NONE, 0, 0.125f, 0, 0, 0, 0 } },
        { "reach", BLIND(reach), { 4, 4, 64, 64, 0, 0, INFER__ROPE_NONE, 0, 1, 0, 0, 0, INFER__SEES_NEAR } },
        { "around", BLIND(around), { 4, 2, 64, 64, 1, 0, INFER__ROPE_NONE, 0, 0.125f, 0, 0, 0, INFER__SEES_AROUND } },
        { "source", BLIND(source), { 4, 4, 64, 64, 0, 0, INFER__ROPE_NONE, 0, 1, 0, 0, 0, INFER__SEES_SOURCE } } };
    const infer__driver *real;
    infer__gpu_uses u;
    infer_error e;
    int32_t verdict;
    size_t i;
    infer__gpu *g;
    GPU_NEED();
    g = gpu_opened[0];
    real = g->driver;
    for (i = 0; i < INFER__COUNT(fields); i++) {
        memset(&u, 0, sizeof u);
        u.kv_types = 1u << INFER_KV_F16;
        u.exact = 3;
        u.heads[0] = fields[i].heads;
        u.n_heads = 1;
        check_detail = fields[i].name;
        infer__error_clear(&e);
        CHECK(infer__gpu_check(g, &u, &gpu_mem, NULL, NULL, &verdict, &e) == INFER_OK);
        g->driver = wrong_driver(real, WRONG_BLIND, "");
        wrong.field = fields[i].at;
        infer__error_clear(&e);
        CHECK(infer__gpu_check(g, &u, &gpu_mem, NULL, NULL, &verdict, &e) == INFER_ERR_DEVICE);
        CHECK(wrong.blind > 0 && verdict == INFER_KERNEL_DIFFERS);
        CHECK_HAS(e.message, "kernel k_");
        g->driver = real;
    }
    check_detail = "";
#undef BLIND
}

/* Every allocation fails once; then the verdict is that there is no memory, not that the device is wrong. */
static void test_gpu_check_memory(void) {
    infer_allocator a = {NULL, check_alloc, check_free};
    infer__gpu_uses u;
    infer__mem mem;
    infer_error e;
    infer_result r = INFER_ERR_MEMORY;
    int32_t verdict;
    long i;
    GPU_NEED();
    checked_uses(&u);
    u.acts = 1;
    u.n_heads = 1;
    for (i = 1; r != INFER_OK && i < 1000 && check_bad < 5; i++) {
        infer__mem_init(&mem, &a, 0);
        check_live = check_allocs = 0;
        check_fail_at = i;
        infer__error_clear(&e);
        r = infer__gpu_check(gpu_opened[0], &u, &mem, NULL, NULL, &verdict, &e);
        check_fail_at = 0;
        CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && verdict == INFER_KERNEL_OK));
        CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
    }
    CHECK(r == INFER_OK && i > 8);
}
