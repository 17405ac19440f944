/* test_gpu_places.c: layers on several devices, on the CPU and devices, and which ones are chosen.
 *
 * Whole models run on the API under test (see test_gpu_models.c, which comes first): on its second device too where it
 * has one, else on the first one twice, which is the same to everything above drivers. What needs devices of chosen
 * sizes runs on the made-up API of fake_gpu.h, whose kernels do nothing.
 */

/* Numbers of two usable devices, as infer_model_params.devices takes them. 0 when there is none. */
static int places_two(int32_t out[2]) {
    infer_device_info d;
    int32_t i, n = 0;
    for (i = 1; n < 2 && infer_device_get(i, &d) == INFER_OK; i++)
        if (d.usable && d.backend == check_backend()) out[n++] = i;
    if (n == 1) out[1] = out[0];
    return n > 0;
}

/* A model on n devices with these shares; layers as infer_model_params.gpu_layers. */
static infer_model *places_open(const char *path, int32_t n, const float *shares, int32_t layers) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    int32_t two[2], i;
    memset(&p, 0, sizeof p);
    if (!places_two(two)) return NULL;
    for (i = 0; i < n; i++) {
        p.devices[i] = two[i & 1];
        p.shares[i] = shares ? shares[i] : 0;
    }
    p.gpu_layers = layers;
    p.exact = 1;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (infer_model_open(&m, path, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

/* ---- whole models ------------------------------------------------------------------------------------------------ */

/* What was estimated for the weights of each device is what lies there, with the frequencies. */
static void places_estimate(infer_model *m) {
    uint64_t sum;
    int32_t d, i, first = 0;
    for (d = 0; d < m->n_devices; first += m->devices[d++].n_layers) {
        for (sum = 0, i = 0; i < INFER__ROPE_SETS; i++) sum += m->ropes[i].device[d].bytes;
        for (i = first; i < first + m->devices[d].n_layers; i++)
            sum += infer__place_weights(m, i, first, UINT64_MAX);
        CHECK(sum == m->devices[d].bytes || m->devices[d].n_layers == 0);
    }
}

/* The first n_rows of the ways to split. */
static void places_each(const char *path, arch_ref *r, size_t n_rows) {
    static const struct { const char *name; int32_t n; float shares[3]; int32_t part, kv; } rows[] = {
        {"two devices", 2, {1, 1, 0}, 3, INFER_KV_F32},
        {"the CPU and two devices", 2, {1, 1, 0}, 2, INFER_KV_F16},
        {"three devices, two being one", 3, {1, 1, 1}, 3, INFER_KV_F32},
        {"two devices, by memory", 2, {0, 0, 0}, 3, INFER_KV_F16}};
    size_t n = (size_t)r->n * (size_t)r->width, i;
    float *out = (float *)calloc(2 * n, sizeof *out);
    char detail[200];
    const int chooses = gpu_chooses(path);
    for (i = 0; i < n_rows && i < sizeof rows / sizeof *rows && out && !check_bad; i++) {
        int32_t layers, want, d, used = 0;
        infer_model *m;
        arch_kv = chooses ? INFER_KV_F32 : rows[i].kv;
        layers = gpu_want(path, r);
        want = gpu_whole(rows[i].part == 3 ? layers : layers * 2 / 3, layers);
        if (want < 1) want = layers;
        m = places_open(path, rows[i].n, rows[i].shares[0] > 0 ? rows[i].shares : NULL, want);
        snprintf(detail, sizeof detail, "%s, %d of %d layers on %s", path, (int)want, (int)layers, rows[i].name);
        check_detail = detail;
        if (m) {
            for (d = 0; d < m->n_devices; d++) used += m->devices[d].n_layers > 0;
            CHECK(m->device_layers == want && used == (want < rows[i].n ? want : rows[i].n));
            places_estimate(m);
            gpu_ways(m, r, out, n);
        }
        CHECK(infer_model_close(m) == INFER_OK);
    }
    arch_kv = INFER_KV_F32;
    CHECK(check_live == 0);
    free(out);
}

static void places_arch_run(void) {
    const char *path = arch_path("gguf");
    arch_ref r;
    GPU_NEEDED();
    if (!path) SKIP("needs INFER_TEST_DATA");
    check_live = check_fail_at = 0;
    if (!arch_ref_open(&r)) { check_note(__FILE__, __LINE__, "no reference"); return; }
    places_each(path, &r, strncmp(arch_file, "llama-", 6) == 0 ? 4 : 2);
    free(r.data);
}

/* Exact numbers: what every device gets per pass, and the residual stream down and up where the device changes. */
static void test_gpu_places_traffic(void) {
    static const float halves[2] = {1, 1};
    const uint64_t block = sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 3 * 40 + 1 + 1 + 2 * 3);
    int32_t i, layers;
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    for (layers = 4; layers <= 5; layers++) { /* of 5: the last one on the CPU, and none */
        infer_model *m = places_open(check_data("models/stories260K.F32.gguf"), 2, halves, layers);
        infer_session *s = NULL;
        infer_session_params p;
        infer_stats st;
        infer_token ids[40];
        infer_error e;
        uint64_t row, best = 8; /* nobody asks for all logits: the largest comes, a token and its value */
        long allocs;
        if (!m) return;
        memset(&p, 0, sizeof p);
        p.context = 128;
        for (i = 0; i < 40; i++) ids[i] = 3 + i * 7;
        row = (uint64_t)m->hp.n_embd * sizeof(float);
        CHECK(m->devices[0].n_layers == (layers == 5 ? 3 : 2) && m->devices[1].n_layers == 2);
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
        CHECK(infer_session_eval(s, ids, 40) == INFER_OK);
        CHECK(infer_session_stats(s, &st) == INFER_OK);
        CHECK(st.bytes_up == 2 * block + 40 * row);
        CHECK(st.bytes_down == 40 * row + (layers == 5 ? best : 40 * row));
        CHECK(st.syncs == 2);
        allocs = check_allocs;
        CHECK(infer_session_eval(s, ids, 1) == INFER_OK);
        CHECK(infer_session_stats(s, &st) == INFER_OK);
        CHECK(st.bytes_up == 2 * sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 3 + 1 + 1 + 2 * 3) + row);
        CHECK(st.bytes_down == row + (layers == 5 ? best : row) && st.syncs == 2);
        CHECK(check_allocs == allocs);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    CHECK(check_live == 0);
}

/* Predicted before, the same after; what is allocated on each device is what was said. */
static void test_gpu_places_memory(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_model_params mp;
    infer_context_params cp;
    infer_memory before, after;
    infer_error e;
    infer_model *m = NULL;
    infer_context *c = NULL;
    int32_t i;
    GPU_NEEDED();
    memset(&mp, 0, sizeof mp);
    memset(&cp, 0, sizeof cp);
    cp.sessions = 2;
    places_two(mp.devices);
    mp.gpu_layers = 4;
    mp.shares[0] = 1;
    mp.shares[1] = 3;
    CHECK(infer_model_memory_path(path, &mp, &cp, &before, &e) == INFER_OK);
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK);
    if (!m) return;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_OK);
    CHECK(infer_context_memory(c, &after) == INFER_OK);
    CHECK(before.n_devices == 2 && after.n_devices == 2 && after.layers == 5);
    CHECK(before.device == after.device && before.cache == after.cache);
    for (i = 0; i < 2; i++) {
        const infer_device_memory *d = &after.devices[i];
        CHECK(memcmp(&before.devices[i].weights, &d->weights, 3 * sizeof d->weights) == 0);
        CHECK(d->layers == (i ? 3 : 1) && d->device == mp.devices[i] && d->free > 0);
        CHECK(d->weights > 0 && d->cache == after.cache * (uint64_t)d->layers); /* one layer is on the CPU */
        CHECK(infer__gpu_used(m->devices[i].gpu) == d->weights + d->cache + d->scratch);
    }
    CHECK(after.device == after.devices[0].weights + after.devices[0].cache + after.devices[0].scratch +
                              after.devices[1].weights + after.devices[1].cache + after.devices[1].scratch);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Bytes that must be free so that the estimate may be as large as this. */
static uint64_t places_free_for(uint64_t sum) {
    uint64_t free = sum;
    while (infer__place_usable(free) < sum) free++;
    return free;
}

/* A whole model on one device, opened for this context: what was estimated is what the context takes there. */
static void places_exact(const infer_context_params *context, int exact) {
    infer_model_params p;
    infer_context *c = NULL;
    infer_memory memory;
    infer_error e;
    infer_model *m = NULL;
    const infer_device_memory *d = &memory.devices[0];
    uint64_t weights = 0, cache = 0, all = 0, layer;
    int32_t i, windows = 0;
    memset(&p, 0, sizeof p);
    p.backend = check_backend();
    p.exact = exact;
    p.fit = *context;
    if (infer_model_open(&m, arch_path("gguf"), &p, &e)) check_note(__FILE__, __LINE__, e.message);
    if (!m) return;
    CHECK(infer_context_create(&c, m, context, &e) == INFER_OK);
    CHECK(infer_context_memory(c, &memory) == INFER_OK);
    for (i = 0; i < m->hp.n_layer; i++) {
        weights += infer__place_weights(m, i, 0, UINT64_MAX);
        all += infer__place_cost(m, i, 0, UINT64_MAX);
        CHECK(infer__plan_layer_cache(&m->fit, m, i, &layer));
        cache += layer;
        windows += m->layers[i].window > 0;
    }
    CHECK(memory.n_devices == 1 && d->layers == m->hp.n_layer);
    CHECK(d->scratch == m->fit.device_bytes + m->fit.top_bytes && m->fit.top_bytes > 0 && m->fit.needs.head_values > 0);
    CHECK(d->cache == cache && d->scratch == all + m->fit.device_bytes - weights - cache);
    for (i = 0; i < INFER__ROPE_SETS; i++) weights += m->ropes[i].device[0].bytes;
    CHECK(d->weights == weights);
    CHECK(infer__gpu_used(m->devices[0].gpu) == weights + cache + d->scratch);
    CHECK((m->fit.needs.n_used > 0) == (strstr(arch_file, "-moe") != NULL)); /* the files are what they are here for */
    CHECK((windows > 0) == (strncmp(arch_file, "gemma3", 6) == 0));
    CHECK(!windows || context->sessions != 1 || m->fit.n_pages[1] < m->fit.n_pages[0]);
    /* a byte less, and it is a layer less */
    m->devices[0].memory = places_free_for(all + m->fit.device_bytes);
    CHECK(infer__place_room(m, 0, 0, m->hp.n_layer) == m->hp.n_layer);
    m->devices[0].memory--;
    CHECK(infer__place_room(m, 0, 0, m->hp.n_layer) == m->hp.n_layer - 1);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_gpu_places_exact(void) {
    static const char *const files[] = {"llama-dense", "qwen3moe-moe", "gemma3-dense"};
    static const infer_context_params contexts[] = {
        {.batch = 0}, {.batch = 40, .cells = 2000, .kv_type = INFER_KV_F32, .keep = 8, .sessions = 1},
        {.batch = 1000, .cells = 5000, .kv_type = INFER_KV_Q8_0, .sessions = 3}};
    char detail[100];
    size_t i, j;
    int exact;
    GPU_NEEDED();
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        arch_file = files[i];
        if (!arch_path("gguf")) SKIP("needs INFER_TEST_DATA");
        for (j = 0; j < sizeof contexts / sizeof *contexts; j++)
            for (exact = 0; exact < 2; exact++) {
                snprintf(detail, sizeof detail, "%s, context %d, exact %d", files[i], (int)j, exact);
                check_detail = detail;
                places_exact(&contexts[j], exact);
            }
    }
}

/* Saved with the layers on two devices, loaded with all on the CPU. */
static void test_gpu_places_state(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    static const float halves[2] = {1, 1};
    infer_model *m[2];
    infer_session *s[2] = {NULL, NULL};
    infer_session_params p;
    infer_error e;
    infer_token ids[30];
    infer_session_mark mark;
    state_bytes b;
    int i;
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    memset(&p, 0, sizeof p);
    p.context = 64;
    for (i = 0; i < 30; i++) ids[i] = 5 + i * 11;
    m[0] = places_open(path, 2, halves, 4);
    m[1] = gpu_open(path, INFER_CPU, 0);
    for (i = 0; i < 2 && m[0] && m[1]; i++) CHECK(infer_session_create(&s[i], m[i], &p, &e) == INFER_OK);
    for (i = 0; i < 2 && s[0] && s[1]; i++) { /* from the devices to the CPU, then back */
        CHECK(infer_session_rewind(s[i], 0) == INFER_OK);
        CHECK(infer_session_eval(s[i], ids, 20) == INFER_OK);
        memset(&b, 0, sizeof b);
        CHECK(infer_session_save(s[i], state_write, &b) == INFER_OK);
        CHECK(infer_session_rewind(s[1 - i], 0) == INFER_OK);
        CHECK(infer_session_load(s[1 - i], state_read, &b) == INFER_OK);
        CHECK(infer_session_position(s[1 - i]) == 20);
        CHECK(infer_session_eval(s[0], ids + 20, 10) == INFER_OK);
        CHECK(infer_session_eval(s[1], ids + 20, 10) == INFER_OK);
        gpu_close_to("after load", infer_session_logits(s[0], -1), infer_session_logits(s[1], -1),
                     (size_t)m[0]->hp.n_vocab);
        free(b.p);
    }
    memset(&b, 0, sizeof b);
    memset(&mark, 0, sizeof mark);
    for (i = 0; i < 6 && s[0] && s[1]; i++) { /* record by record, in turns: who has loaded writes the next one */
        infer_session *from = s[i % 2], *to = s[1 - i % 2];
        CHECK(infer_session_rewind(from, 25 - i) == INFER_OK && infer_session_eval(from, ids, 1 + 3 * i) == INFER_OK);
        CHECK(infer_session_save_more(from, &mark, state_write, &b) == INFER_OK);
        b.at = 0;
        CHECK(infer_session_load_more(to, &mark, state_read, &b) == INFER_OK && mark.bytes == b.n && inc_same(from, to));
    }
    free(b.p);
    for (i = 0; i < 2; i++) {
        infer_session_destroy(s[i]);
        CHECK(infer_model_close(m[i]) == INFER_OK);
    }
    CHECK(check_live == 0);
}

/* host: fork. In a child nothing of a model on a device can be used, or closed; here another process is said to have opened it. */
static void test_gpu_after_fork(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    static const float halves[] = { 1, 1 };
    infer_session_params p;
    infer_session *s = NULL, *t = NULL;
    infer_context *c = NULL;
    infer_model *m;
    infer_error e;
    infer_token ids[3] = { 5, 16, 27 };
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    memset(&p, 0, sizeof p);
    p.context = 64;
    if ((m = places_open(path, 2, halves, 4)) == NULL) return;
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK && infer_session_eval(s, ids, 3) == INFER_OK);
    m->process++;
    CHECK(infer_session_eval(s, ids, 3) == INFER_ERR_STATE && infer_session_create(&t, m, &p, &e) == INFER_ERR_STATE && !t);
    CHECK(infer_context_create(&c, m, NULL, &e) == INFER_ERR_STATE && !c);
    CHECK(infer_session_destroy(s) == INFER_ERR_STATE && infer_model_close(m) == INFER_ERR_STATE);
    m->process--;
    CHECK(infer_session_eval(s, ids, 3) == INFER_OK && infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
}

static infer_result places_try(const infer_model_params *given, const char *says) {
    infer_model_params p = *given;
    infer_model *m = NULL;
    infer_error e;
    infer_result r;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    check_live = check_fail_at = 0;
    r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &p, &e);
    if (r) CHECK_HAS(e.message, says);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
    return r;
}

static void test_gpu_places_refused(void) {
    infer_model_params p;
    int32_t two[2];
    memset(&p, 0, sizeof p);
    p.devices[0] = infer_device_count();
    CHECK(places_try(&p, "there is no such device") == INFER_ERR_ARGUMENT);
    p.devices[0] = 0;
    p.shares[1] = -1;
    CHECK(places_try(&p, "shares[1]") == INFER_ERR_ARGUMENT);
    p.shares[1] = 0;
    p.fit.batch = -1;
    CHECK(places_try(&p, "fit.batch is -1, outside 0..1048576") == INFER_ERR_ARGUMENT);
    p.fit.batch = 0;
    p.fit.kv_type = 99;
    CHECK(places_try(&p, "fit.kv_type 99 is unknown") == INFER_ERR_ARGUMENT);
    p.fit.kv_type = 0;
    if (!places_two(two)) return;
    p.devices[0] = p.device = two[0];
    CHECK(places_try(&p, "both given") == INFER_ERR_ARGUMENT);
    p.device = 0;
    p.backend = INFER_CPU;
    CHECK(places_try(&p, "is not of the backend") == INFER_ERR_ARGUMENT);
    p.backend = INFER_AUTO;
    CHECK(places_try(&p, "") == INFER_OK);
}

/* ---- failures on either device ----------------------------------------------------------------------------------- */

static infer_result places_scenario(float *logits, infer_error *e) {
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_session *s = NULL, *t = NULL;
    infer_token ids[3] = {1, 9, 20};
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    places_two(mp.devices);
    mp.shares[0] = mp.shares[1] = 1;
    mp.gpu_layers = 4;
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    p.context = 32;
    p.own.threads = 1;
    r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, e);
    if (r) return r;
    r = infer_session_create(&s, m, &p, e);
    if (s && (r = infer_session_eval(s, ids, 3)) != INFER_OK) { /* it stands where it stood, and goes on */
        *e = *infer_session_error(s);
        CHECK(infer_session_position(s) == 0);
        CHECK(infer_session_eval(s, ids, 3) == INFER_OK || check_fail_at);
    }
    if (s && !r) r = infer_session_fork(&t, s, e);
    if (t && (r = infer_session_eval(t, ids, 1)) != INFER_OK) {
        *e = *infer_session_error(t);
        CHECK(infer_session_position(t) == 3);
        CHECK(infer_session_eval(t, ids, 1) == INFER_OK);
    }
    if (t) memcpy(logits, infer_session_logits(t, -1), (size_t)m->hp.n_vocab * sizeof *logits);
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return r;
}

static void test_gpu_places_faults(void) {
    GPU_NEEDED();
    CHECK(gpu_fault_rounds(places_scenario, 250, 3, 23) > 60 / gpu_cases_every());
}

static void test_gpu_places_oom(void) {
    GPU_NEEDED();
    gpu_oom_rounds(places_scenario, gpu_cases_every());
}

/* ---- choosing, on a made-up API ---------------------------------------------------------------------------------- */

static char places_said[4000];
static void places_log(void *user, int level, const char *message) {
    size_t n = strlen(places_said);
    (void)user;
    if (level <= 3) snprintf(places_said + n, sizeof places_said - n, "%s\n", message);
}

/* A model on the made-up devices. */
static infer_model *places_fake(const infer_model_params *given, infer_result want, infer_error *e) {
    infer_model_params p = *given;
    infer_model *m = NULL;
    infer_result r;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    p.log = places_log;
    p.gpu_unchecked = !check_gpu_checked;
    places_said[0] = 0;
    check_live = check_fail_at = 0;
    r = infer__model_start(&m, &p, INFER_VERSION, e);
    if (!r) {
        m->apis = fake_drivers;
        r = infer__gguf_open_path(&m->gguf, &m->mem, &m->report, check_data("models/stories260K.F32.gguf"), !p.no_mmap,
                                  e);
        r = infer__model_finish(&m, NULL, r, e);
    }
    CHECK(r == want && (r == INFER_OK) == (m != NULL));
    if (r != want) check_note(__FILE__, __LINE__, e->message);
    return m;
}
static void places_fake_close(infer_model *m) {
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
    fake_closed();
}

/* A device of the made-up OpenCL with so many bytes. */
static infer_device_info *places_device(const char *name, uint64_t memory) {
    infer_device_info *d = fake_device(FAKE_OPENCL, name, NULL);
    d->total = memory / 9 * 10 + 10;
    d->free = memory;
    return d;
}

static void test_gpu_places_automatic(void) {
    infer_device_info *d;
    int32_t rows[3];
    char why[120];
    fake_reset(0);
    fake.apis[FAKE_HIP].why_not = "libnone.so.1 was not found";
    CHECK(infer__gpu_automatic(fake_drivers, 1) == -1);
    d = fake_device(FAKE_OPENCL, "Processor", NULL); /* rows: hip, opencl, metal */
    d->processor = d->unified = 1;
    CHECK(infer__gpu_automatic(fake_drivers, 1) == -1);
    fake_device(FAKE_METAL, "Broken", "it is broken");
    CHECK(infer__gpu_automatic(fake_drivers, 1) == -1);
    fake_device(FAKE_METAL, "Whole", NULL);
    CHECK(infer__gpu_automatic(fake_drivers, 1) == 3 && infer__gpu_automatic(fake_drivers, 0) == -1);
    d = fake_device(FAKE_OPENCL, "Shared", NULL);
    d->unified = 1;
    CHECK(infer__gpu_automatic(fake_drivers, 1) == 2);
    fake_device(FAKE_OPENCL, "Own", NULL);
    CHECK(infer__gpu_automatic(fake_drivers, 1) == 3); /* before the one that shares the CPU's memory */
    CHECK(infer__gpu_rows(fake_drivers, INFER_OPENCL, 0, rows, 3, why, sizeof why) == 1 && rows[0] == 3);
    CHECK(infer__gpu_rows(fake_drivers, INFER_OPENCL, 1, rows, 3, why, sizeof why) == 3);
    CHECK(rows[0] == 3 && rows[1] == 2 && rows[2] == 1);
    CHECK(infer__gpu_rows(fake_drivers, INFER_HIP, 0, rows, 3, why, sizeof why) == 0);
    CHECK_STR(why, "libnone.so.1 was not found");
    CHECK(infer__gpu_rows(fake_drivers, INFER_CUDA, 0, rows, 3, why, sizeof why) == 0);
    CHECK_STR(why, "it is not in this build");
    fake.apis[FAKE_HIP].n = 0;
    fake_device(FAKE_HIP, "First", NULL);
    CHECK(infer__gpu_automatic(fake_drivers, 1) == 0);
    CHECK(infer__gpu_automatic(NULL, 0) == -1);
}

/* `auto` as a model sees it: what it takes, and in the log why not the others. */
static void test_gpu_places_auto(void) {
    infer_model_params p;
    infer_device_info *d;
    infer_model *m;
    infer_error e;
    memset(&p, 0, sizeof p);
    fake_reset(0); /* a processor only: the CPU */
    fake.apis[FAKE_HIP].why_not = "libnone.so.1 was not found";
    d = places_device("Processor", 1 << 30);
    d->processor = d->unified = 1;
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->n_devices == 0 && m->device_layers == 0);
    CHECK_HAS(places_said, "auto: not hip: libnone.so.1 was not found\n");
    CHECK_HAS(places_said, "auto: not opencl: Processor is no GPU\n");
    CHECK_HAS(places_said, "auto: not metal: ");
    CHECK_HAS(places_said, "auto: the CPU\n");
    places_fake_close(m);
    p.backend = INFER_OPENCL; /* demanded, it is taken */
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->device_layers == 5);
    places_fake_close(m);

    p.backend = INFER_AUTO; /* a GPU beside it */
    fake_reset(0);
    d = places_device("Processor", 1 << 30);
    d->processor = 1;
    places_device("Card", 1 << 30);
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->device_layers == (INFER__AUTO_TAKES_GPUS ? 5 : 0));
    if (m && INFER__AUTO_TAKES_GPUS) {
        CHECK_STR(infer__gpu_name(m->devices[0].gpu), "Card");
        CHECK_HAS(places_said, "auto: opencl, Card: 5 of 5 layers\n");
    }
    if (m) { /* both settings, whatever the constant is */
        infer__place_free(m);
        CHECK(infer__place_auto(m, 0) == INFER_OK && m->n_devices == 0 && m->device_layers == 0);
        CHECK(infer__place_auto(m, 1) == INFER_OK && m->n_devices == 1 && m->device_layers == 5);
        infer__place_free(m);
        CHECK(m->layers[0].place == INFER__ON_CPU && m->n_devices == 0);
    }
    places_fake_close(m);
    p.gpu_layers = -1; /* none wanted: nothing is opened */
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->n_devices == 0 && fake.calls > 0);
    places_fake_close(m);

    p.gpu_layers = 0; /* it cannot be opened, or not used while loading: the CPU, and the log says so */
    fake_reset(0);
    places_device("Card", 1 << 30);
    fake.no_open = 1;
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->device_layers == 0);
    if (INFER__AUTO_TAKES_GPUS) CHECK_HAS(places_said, "auto: not opencl: Card: fakeOpen");
    places_fake_close(m);
    p.backend = INFER_OPENCL;
    m = places_fake(&p, INFER_ERR_DEVICE, &e);
    CHECK_HAS(e.message, "Card: fakeOpen");
    places_fake_close(m);
    p.backend = INFER_METAL;
    m = places_fake(&p, INFER_ERR_DEVICE, &e);
    CHECK_HAS(e.message, "backend metal has no usable device");
    places_fake_close(m);
}

/* Every call of the API fails once under `auto`: the model opens all the same, on the device or the CPU. */
static void test_gpu_places_auto_faults(void) {
    infer_model_params p;
    long i, n = 1;
    memset(&p, 0, sizeof p);
    for (i = 0; INFER__AUTO_TAKES_GPUS && i <= n && check_bad < 5; i++) {
        infer_model *m;
        infer_error e;
        fake_reset(i);
        places_device("Card", 1 << 30);
        m = places_fake(&p, INFER_OK, &e);
        if (i == 0) n = fake.calls;
        CHECK(m && (m->device_layers == 0 || m->device_layers == 5 || fake.fail_at));
        if (i > 0 && m && m->device_layers == 0) CHECK_HAS(places_said, ": error -");
        places_fake_close(m);
    }
    CHECK(n > 20 || !INFER__AUTO_TAKES_GPUS);
}

/* Bytes that must be free for the first n layers on one device by the estimate. */
static uint64_t places_need(int32_t n) {
    infer_model_params p;
    infer_model *m;
    infer_error e;
    uint64_t sum = 0;
    int32_t i;
    memset(&p, 0, sizeof p);
    p.backend = INFER_CPU;
    m = places_fake(&p, INFER_OK, &e);
    for (i = 0; m && i < n; i++) sum += infer__place_cost(m, i, 0, UINT64_MAX);
    if (m) sum += m->fit.device_bytes;
    CHECK(infer_model_close(m) == INFER_OK);
    return places_free_for(sum);
}

static void places_counts(const infer_model *m, int32_t first, int32_t second) {
    CHECK(m && m->devices[0].n_layers == first && m->devices[1].n_layers == second);
    CHECK(m && m->device_layers == first + second);
}

/* How many layers, and where, by free memory. */
static void test_gpu_places_fit(void) {
    uint64_t all, three;
    infer_model_params p;
    infer_model *m;
    infer_error e;
    fake_reset(0);
    all = places_need(5);
    three = places_need(3);
    memset(&p, 0, sizeof p);
    p.backend = INFER_OPENCL;
    /* one device is enough: the second one is not even opened */
    fake_reset(0);
    places_device("One", all);
    places_device("Two", all);
    m = places_fake(&p, INFER_OK, &e);
    places_counts(m, 5, 0);
    CHECK(m && m->n_devices == 1 && fake.live[FAKE_DEVICE] == 1);
    places_fake_close(m);
    /* a byte too few: both, in proportion */
    fake_reset(0);
    places_device("One", all - 1);
    places_device("Two", all - 1);
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->n_devices == 2 && m->device_layers == 5 && m->devices[0].n_layers >= 2 && m->devices[1].n_layers >= 2);
    places_fake_close(m);
    /* one of them is small */
    fake_reset(0);
    places_device("One", three);
    places_device("Two", all);
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->device_layers == 5 && m->devices[0].n_layers > 0 && m->devices[0].n_layers <= 3);
    places_fake_close(m);
    /* not all fit: the rest stays on the CPU, as the log says */
    fake_reset(0);
    places_device("One", three);
    m = places_fake(&p, INFER_OK, &e);
    places_counts(m, 3, 0);
    CHECK(m && m->layers[2].place == INFER__ON_DEVICE && m->layers[3].place == INFER__ON_CPU);
    CHECK_HAS(places_said, "3 of 5 layers fit into One");
    places_fake_close(m);
    fake_reset(0);
    places_device("One", three - 1);
    m = places_fake(&p, INFER_OK, &e);
    places_counts(m, 2, 0);
    places_fake_close(m);
    fake_reset(0);
    places_device("One", 1000);
    m = places_fake(&p, INFER_ERR_MEMORY, &e);
    CHECK_HAS(e.message, "no layer fits into the 1000 bytes of One");
    places_fake_close(m);
    /* one that shares the CPU's memory, or is a processor, helps no card; alone it may be all there is */
    fake_reset(0);
    places_device("One", three);
    places_device("Shared", 2 * all)->unified = 1;
    places_device("Processor", all)->processor = 1;
    m = places_fake(&p, INFER_OK, &e);
    places_counts(m, 3, 0);
    places_fake_close(m);
    p.devices[0] = 2; /* rows: hip, One, Shared, ... */
    p.devices[1] = 3;
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->device_layers == 5 && m->devices[1].n_layers > 0);
    places_fake_close(m);
    p.devices[0] = p.devices[1] = 3; /* twice the same: its memory once */
    m = places_fake(&p, INFER_OK, &e);
    CHECK(m && m->n_devices == 2 && m->devices[0].memory == all && m->devices[1].memory == all);
    places_fake_close(m);
    p.devices[0] = p.devices[1] = 0;
    /* the second device does not open: fewer layers; where it was demanded an error */
    fake_reset(0);
    places_device("One", three);
    places_device("Two", all);
    fake.no_open = 2;
    m = places_fake(&p, INFER_OK, &e);
    places_counts(m, 3, 0);
    CHECK_HAS(places_said, "a device is left out: Two: fakeOpen");
    places_fake_close(m);
    p.devices[0] = 2;
    p.devices[1] = 3;
    m = places_fake(&p, INFER_ERR_DEVICE, &e);
    CHECK_HAS(e.message, "Two: fakeOpen");
    places_fake_close(m);
}

/* A long context does not fit beside as many layers as a default one leaves room for; it does when the model was opened
 * for it, beside fewer. */
static void test_gpu_places_fit_context(void) {
    infer_context_params cp;
    infer_model_params p;
    infer_model *m;
    infer_context *c;
    infer_error e;
    uint64_t free;
    int told;
    fake_reset(0);
    free = places_need(5) + (10 << 20); /* less than half of the five layers' cache for 32768 positions */
    memset(&p, 0, sizeof p);
    memset(&cp, 0, sizeof cp);
    p.backend = INFER_OPENCL;
    cp.cells = 32768;
    for (told = 0; told < 2; told++) {
        fake_reset(0);
        places_device("One", free);
        fake.room[0] = infer__place_usable(free) + 256; /* frequencies of rotations */
        if (told) p.fit = cp;
        m = places_fake(&p, INFER_OK, &e);
        if (!m) return;
        CHECK(told ? m->device_layers > 0 && m->device_layers < 5 : m->device_layers == 5);
        if (told) CHECK_HAS(places_said, "of 5 layers fit into One with a context of 32768 cells");
        c = NULL;
        CHECK(infer_context_create(&c, m, &cp, &e) == (told ? INFER_OK : INFER_ERR_MEMORY));
        if (!told) CHECK_HAS(e.message, "cache of 32768 cells: One: ");
        CHECK(infer_context_destroy(c) == INFER_OK);
        places_fake_close(m);
    }
    p.fit.cells = 1 << 30; /* nothing fits beside that */
    fake_reset(0);
    places_device("One", free);
    m = places_fake(&p, INFER_ERR_MEMORY, &e);
    CHECK_HAS(e.message, "no layer fits into ");
    CHECK_HAS(e.message, " bytes of One with a context of 1073741824 cells");
    places_fake_close(m);
}

/* Other programs took memory since it was looked at: fewer layers, or an error where they were demanded. */
static void test_gpu_places_fewer(void) {
    infer_model_params p;
    infer_model *m;
    infer_error e;
    uint64_t room;
    int32_t last = -1;
    memset(&p, 0, sizeof p);
    p.backend = INFER_OPENCL;
    for (room = 1000; room < (2u << 20) && last < 5; room += 40000) {
        fake_reset(0);
        places_device("One", 1 << 30);
        fake.room[0] = room;
        p.gpu_layers = 0;
        m = places_fake(&p, last <= 0 && room < 300000 ? INFER_ERR_MEMORY : INFER_OK, &e);
        if (!m) CHECK_HAS(e.message, "fakeAlloc: no room");
        if (m) {
            CHECK(m->device_layers >= last && m->device_layers > 0);
            if (m->device_layers < 5) CHECK_HAS(places_said, "trying again with ");
            last = m->device_layers;
            CHECK(fake.used[0] == m->device_bytes && fake.used[0] <= room);
        }
        places_fake_close(m);
        if (!m || last == 5) continue;
        p.gpu_layers = 5;
        m = places_fake(&p, INFER_ERR_MEMORY, &e);
        CHECK_HAS(e.message, "fakeAlloc: no room");
        places_fake_close(m);
    }
    CHECK(last == 5);
    /* a context that does not fit says how much it wanted */
    fake_reset(0);
    places_device("One", 1 << 30);
    p.gpu_layers = 5;
    m = places_fake(&p, INFER_OK, &e);
    if (m) {
        infer_session *s = NULL;
        fake.room[0] = fake.used[0] + 100000;
        CHECK(infer_session_create(&s, m, NULL, &e) == INFER_ERR_MEMORY && s == NULL);
        CHECK_HAS(e.message, "bytes");
    }
    places_fake_close(m);
}

/* A device whose largest buffer is small: a layer takes several; where a tensor is larger than that, it says so. */
static uint64_t places_most;
static uint64_t places_largest(void *device) { (void)device; return places_most; }
/* Tests that send the weights twice: where their bytes have to be swapped they are copies, freed once they are sent. */
#define PLACES_MAPPED() do { if (INFER__BIG_ENDIAN) SKIP("cpu: big-endian, the weights are not those of the file"); } while (0)

static void test_gpu_places_buffers(void) {
    infer__driver small_buffers = fake_opencl;
    const infer__driver *apis[2];
    infer_model_params p;
    infer__upload *upload = NULL;
    infer_model *m;
    infer_error e;
    PLACES_MAPPED();
    memset(&p, 0, sizeof p);
    p.backend = INFER_OPENCL;
    small_buffers.largest = places_largest;
    apis[0] = &small_buffers;
    apis[1] = NULL;
    for (places_most = 200000; places_most >= 20000; places_most /= 3) {
        uint64_t used;
        fake_reset(0);
        places_device("One", 1 << 30);
        m = places_fake(&p, INFER_OK, &e);
        if (!m) return;
        used = fake.used[0];
        infer__place_free(m);
        m->apis = apis;
        memset(&e, 0, sizeof e);
        CHECK(infer__place_choose(m, &e) == INFER_OK || places_most < 131072); /* the embedding's bytes */
        if (m->device_layers == 5) {
            CHECK(infer__place_upload(m, &upload, NULL, &e) == INFER_OK && fake.used[0] == used);
            CHECK(m->layers[0].weights.n >= (places_most < 100000 ? 3 : 1));
        } else {
            CHECK_HAS(e.message, "no layer fits");
            infer__place_free(m);
            m->params.gpu_layers = 5;
            infer__error_clear(&e);
            CHECK(infer__place_choose(m, &e) == INFER_OK);
            CHECK(infer__place_upload(m, &upload, NULL, &e) == INFER_ERR_MEMORY);
            CHECK_HAS(e.message, "the largest buffer of One");
        }
        places_fake_close(m);
    }
}

static void suite_gpu_places(void) {
    static char name[96];
    size_t i, j;
    for (i = j = 0; i < sizeof ARCH_FILES / sizeof *ARCH_FILES; i++) {
        if (!gpu_first_of_row(i) || j++ % gpu_every()) continue;
        arch_file = ARCH_FILES[i];
        snprintf(name, sizeof name, "gpu_places_%s", arch_file);
        if (CHECK_DEVICES) check_run(name, places_arch_run);
    }
    RUN_DEVICE(test_gpu_places_traffic);
    RUN_DEVICE(test_gpu_places_memory);
    RUN_DEVICE(test_gpu_places_exact);
    RUN_DEVICE(test_gpu_places_state);
    RUN_DEVICE(test_gpu_after_fork);
    RUN(test_gpu_places_refused);
    if (check_backend() == INFER_OPENCL) RUN_DEVICE(test_gpu_places_faults);
    RUN_DEVICE(test_gpu_places_oom);
    RUN(test_gpu_places_automatic);
    RUN(test_gpu_places_auto);
    RUN(test_gpu_places_auto_faults);
    RUN(test_gpu_places_fit);
    RUN(test_gpu_places_fit_context);
    RUN(test_gpu_places_fewer);
    RUN(test_gpu_places_buffers);
}
