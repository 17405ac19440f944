/* test_gpu_models.c: whole models on a device, through the public API: all, half and none of the layers there, against the
 * CPU's exact results. Needs an OpenCL device (pocl-opencl-icd is one on any machine). */

#define GPU_LIMIT 1e-6 /* NMSE against the CPU */
static double gpu_limit = GPU_LIMIT;
/* In a cache of whole numbers a last digit may move a value to the next of its steps: 256 of 8 bits, 16 of 4. */
static double gpu_limit_of(int32_t kv) { return (kv == INFER_KV_Q4_0 ? 10 : kv == INFER_KV_Q8_0 ? 3 : 1) * GPU_LIMIT; }

/* Of many models that differ in numbers only, sanitizers, which are slow, see every fourth or eighth; CHECK_GPU_EVERY=16: every 16th. */
#if defined(__SANITIZE_THREAD__)
enum { GPU_EVERY = 8 };
#elif defined(__SANITIZE_ADDRESS__)
enum { GPU_EVERY = 4 };
#else
enum { GPU_EVERY = 1 };
#endif
static int gpu_every(void) {
    const char *n = getenv("CHECK_GPU_EVERY");
    return n && atoi(n) > 0 ? atoi(n) : GPU_EVERY;
}
/* Of cases that differ in more, such as calls that fail: every eighth at least, however few models there are. */
static int gpu_cases_every(void) { return INFER__MIN(gpu_every(), 8); }

/* The API under test: CHECK_BACKEND is its name, else OpenCL. */
static int32_t check_backend(void) {
    const char *name = getenv("CHECK_BACKEND");
    int32_t b;
    for (b = INFER_CUDA; name && b <= INFER_METAL; b++)
        if (strcmp(name, infer__backend_name(b)) == 0) return b;
    return INFER_OPENCL;
}

/* Number of the first usable device of the OpenCL API (as infer_model_params.device takes it), 0 when there is none. */
static int32_t gpu_device(void) {
    infer_device_info d;
    int32_t i;
    for (i = 1; infer_device_get(i, &d) == INFER_OK; i++)
        if (d.usable && d.backend == check_backend()) return i;
    return 0;
}
#define GPU_NEEDED() do { if (!gpu_device()) SKIP("no OpenCL device"); } while (0)

static int32_t gpu_exact = 1;
static infer_model *gpu_open(const char *path, int32_t backend, int32_t layers) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.backend = backend;
    p.gpu_layers = layers;
    p.exact = gpu_exact;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (infer_model_open(&m, path, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

static void gpu_close_to(const char *how, const float *a, const float *b, size_t n) {
    double nmse = check_nmse(a, b, n);
    char m[120];
    if (nmse <= gpu_limit) return;
    snprintf(m, sizeof m, "%s: nmse %.3g", how, nmse);
    check_note(__FILE__, __LINE__, m);
}

/* ---- every way of evaluating, at every placement ------------------------------------------------------------------ */

/* The first layer of gpu_want's model whose keys and values later ones read: they are on one device. */
static int32_t gpu_together;
static int32_t gpu_whole(int32_t want, int32_t layers) { return want > gpu_together && want < layers ? gpu_together : want; }

/* Whether an indexer chooses positions by scores of keys: where the cache rounds these, a last digit decides, and is anybody's. */
static int gpu_chooses(const char *path) {
    infer_model *m = gpu_open(path, INFER_CPU, 0);
    int32_t i = 0;
    int found;
    for (; m && i < m->hp.n_layer && !m->layers[i].index_of.heads; i++) {}
    found = m && i < m->hp.n_layer;
    CHECK(infer_model_close(m) == INFER_OK);
    return found;
}

/* What the CPU gives for the ids, all at once, to r->x. Returns the number of layers: all can go to devices. */
static int32_t gpu_want(const char *path, arch_ref *r) {
    infer_model *m = gpu_open(path, INFER_CPU, 0);
    infer_session *s = m ? arch_session(m, 2, 0) : NULL;
    int32_t layers = m ? m->hp.n_layer : 0;
    infer__obstacle o;
    int32_t most = 0;
    if (m) infer__place_limit(m, layers, &most, &o);
    CHECK(most == layers);
    for (gpu_together = 0; m && gpu_together < layers && !m->layers[gpu_together].kv_read; gpu_together++) {}
    if (s) arch_eval(s, r, 0, r->n, r->n, r->x);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return layers;
}

/* With all layers on one device nothing but the values per token goes up, and each pass is waited for once. */
static void gpu_traffic(const infer_model *m, const infer_session *s, const arch_ref *r) {
    infer_stats st;
    const int32_t reach = m->hp.n_enc && arch_source.n > r->n ? arch_source.n : r->n;
    int32_t pages = (reach - 1) / INFER__PAGE + 1, i;
    uint64_t cells = 0, more = 0, most = (uint64_t)m->hp.n_layer * 20 + 20;
    for (i = 0; i < m->n_states; i++)
        if (m->states[i].kind == INFER__STATE_RECURRENT) cells = 2;
    for (i = 0; i < m->hp.n_layer; i++) /* latent attention has two products a head */
        if (m->layers[i].latent_rank) most += 2 * (uint64_t)m->layers[i].n_head;
    for (i = 0; i < m->hp.n_layer; i++) { /* weights go to what experts read; RWKV's mixtures */
        if (m->layers[i].router && m->layers[i].router->before) most += 6;
        if (m->layers[i].wkv.heads) most += 40;
        if (m->layers[i].index_of.heads) most += 20;
        if (m->layers[i].compress.groups) most += 10 + (uint64_t)m->layers[i].compress.groups;
    }
    if (m->hp.n_hyper) most += (m->hp.hyper_rank ? 40 : 10) * (uint64_t)m->hp.n_layer;
    if (m->hp.n_per_layer) most += 6 * (uint64_t)m->hp.n_layer;
    if (m->hp.switches.n) { /* three more for each of seven products */
        most += 21 * (uint64_t)m->hp.n_layer;
        more = (uint64_t)r->n;
    }
    if (m->hp.not_causal) more += (uint64_t)r->n; /* where rows end seeing */
    more += (uint64_t)r->n * (uint64_t)infer__looks(m);
    more += m->hp.n_enc > 0; /* how long the source is */
    if (m->hp.per_group) most += 10 * (uint64_t)m->hp.n_layer;
    if (m->hp.res_every) most += 8 * (uint64_t)m->hp.n_layer;
    if (m->hp.n_streams) most += 26 * (uint64_t)m->hp.n_layer; /* prediction, correction, low-rank residual */
    CHECK(infer_session_stats(s, &st) == INFER_OK);
    if (m->device_layers < m->hp.n_layer || m->n_devices != 1) return;
    CHECK(st.bytes_up == sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 4 * (uint64_t)r->n + 1 + 2 * (uint64_t)pages + cells +
                                          more));
    if (getenv("CHECK_VERBOSE")) printf("launches %llu of %llu\n", (unsigned long long)st.launches, (unsigned long long)most);
    CHECK(st.launches > (uint64_t)m->hp.n_layer * 5 && st.launches < most);
}

/* Tokens that see each other: the same eval again, and two sessions' side by side. */
static void gpu_again(infer_session *s, const arch_ref *r, float *out, size_t n) {
    infer_session *t = NULL;
    infer_step st[2];
    infer_error e;
    int i;
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    arch_eval(s, r, 0, r->n, r->n, out);
    gpu_close_to("again", out, r->x, n);
    CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_fork(&t, s, NULL) == INFER_OK);
    if (!t) return;
    memset(st, 0, sizeof st);
    for (i = 0; i < 2; i++) {
        st[i].session = i ? t : s;
        st[i].tokens = r->ids;
        st[i].n = r->n;
        st[i].outputs = r->hidden ? INFER_OUT_HIDDEN : INFER_OUT_ALL;
    }
    if (infer_eval(s->context, st, 2, &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
    if (!check_bad) gpu_close_to("two sessions, first", arch_rows(s, r), r->x, n);
    if (!check_bad) gpu_close_to("two sessions, second", arch_rows(t, r), r->x, n);
    infer_session_destroy(t);
}

/* out: 2 * n floats. */
static void gpu_ways(infer_model *m, const arch_ref *r, float *out, size_t n) {
    infer_session *s = arch_session(m, 2, 0), *t = NULL, *u;
    infer_error e;
    if (s) {
        arch_eval(s, r, 0, r->n, r->n, out);
        gpu_close_to("at once", out, r->x, n);
        gpu_traffic(m, s, r);
        if (m->hp.not_causal) { /* the rest would be other results */
            gpu_again(s, r, out, n);
            infer_session_destroy(s);
            return;
        }
        CHECK(infer_session_rewind(s, r->n / 3) == INFER_OK);
        CHECK(infer_session_fork(&t, s, &e) == INFER_OK);
        memset(out, 0, n * sizeof *out);
        memcpy(out, r->x, (size_t)(r->n / 3) * (size_t)r->width * sizeof *out);
        memcpy(out + n, out, n * sizeof *out);
        arch_eval(s, r, r->n / 3, r->n, 9, out);
        gpu_close_to("after rewind", out, r->x, n);
        if (t) arch_eval(t, r, r->n / 3, r->n, 4, out + n);
        gpu_close_to("after fork", out + n, r->x, n);
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        if (t) CHECK(infer_session_rewind(t, 0) == INFER_OK);
        memset(out, 0, 2 * n * sizeof *out);
        if (t) arch_together(s, t, r, out, out + n);
        gpu_close_to("two sessions, first", out, r->x, n);
        gpu_close_to("two sessions, second", out + n, r->x, n);
    }
    infer_session_destroy(t);
    infer_session_destroy(s);
    u = arch_session(m, 1, 7);
    if (u) {
        memset(out, 0, n * sizeof *out);
        arch_eval(u, r, 0, r->n, 1, out);
        gpu_close_to("one id at a time", out, r->x, n);
    }
    infer_session_destroy(u);
}

/* All, half and none of the layers on the device, with the types of cache: those after F16 with all of them there.
 * r->x is overwritten. */
static void gpu_placements(const char *path, arch_ref *r) {
    static const struct { const char *name; int32_t part; } places[] = { { "all", 2 }, { "half", 1 }, { "none", 0 } };
    static const char *const kv_names[] = { "", "f32", "f16", "bf16", "q8_0", "q4_0" };
    size_t n = (size_t)r->n * (size_t)r->width, i;
    float *out = (float *)calloc(2 * n, sizeof *out);
    char detail[200];
    static int32_t turn;
    int brief = strstr(path, "quants/") != NULL || gpu_chooses(path); /* the former vary in the type of weights alone */
    int32_t kv, layers, want, extra = INFER_KV_BF16 + turn++ % 3; /* of the types after F16 each model takes one */
    for (kv = INFER_KV_Q4_0; kv >= INFER_KV_F32 && out; kv--) { /* F32 is what the caller compares with recorded logits */
        if ((kv > INFER_KV_F16 && kv != extra) || (brief && kv != INFER_KV_F32)) continue;
        arch_kv = kv;
        gpu_limit = gpu_limit_of(kv);
        layers = gpu_want(path, r);
        for (i = 0; i < (brief || kv == INFER_KV_F16 ? 2 : kv == INFER_KV_F32 ? 3 : 1) && !check_bad; i++) {
            infer_model *m;
            want = gpu_whole(layers * places[i].part / 2, layers);
            m = gpu_open(path, check_backend(), want == layers ? 0 : want ? want : -1);
            snprintf(detail, sizeof detail, "%s, %s of %d layers on the device, cache %s", path, places[i].name, (int)layers,
                     kv_names[kv]);
            check_detail = detail;
            if (m) {
                CHECK(m->device_layers == want);
                gpu_ways(m, r, out, n);
                if (want == 0) gpu_close_to("the CPU's own", out, r->x, n);
            }
            CHECK(infer_model_close(m) == INFER_OK);
        }
    }
    arch_kv = INFER_KV_F32;
    gpu_limit = GPU_LIMIT;
    CHECK(check_live == 0);
    free(out);
}

static void gpu_arch_run(void) {
    const char *path = arch_path("gguf");
    arch_ref r;
    double nmse;
    float *reference;
    size_t n;
    int32_t i;
    GPU_NEEDED();
    if (!path) SKIP("needs INFER_TEST_DATA");
    check_live = check_fail_at = 0;
    if (!arch_ref_open(&r)) { check_note(__FILE__, __LINE__, "no reference"); return; }
    n = (size_t)r.n * (size_t)r.width;
    reference = (float *)malloc(n * sizeof *reference);
    memcpy(reference, r.x, n * sizeof *reference);
    gpu_placements(path, &r);
    for (i = 0; i < r.n; i++)
        if (arch_free_row(i)) memcpy(reference + i * r.width, r.x + i * r.width, (size_t)r.width * sizeof(float));
    nmse = check_nmse(r.x, reference, n);
    CHECK(nmse <= arch_limit());
    free(reference);
    free(r.data);
}

/* Trained models: ids that cover the vocabulary; no recorded logits are needed. */
static const char *gpu_model_file;
static void gpu_model_run(void) {
    const char *path = check_data(gpu_model_file);
    FILE *f = fopen(path, "rb");
    infer_model *m;
    arch_ref r;
    int32_t i;
    GPU_NEEDED();
    if (f) fclose(f);
    else path = check_reference(gpu_model_file);
    if (!path) SKIP("needs INFER_TEST_DATA");
    check_live = check_fail_at = 0;
    m = gpu_open(path, INFER_CPU, 0);
    if (!m) return;
    memset(&r, 0, sizeof r);
    r.width = m->hp.n_vocab;
    r.n = INFER__MIN(m->hp.n_ctx, gpu_small() ? 40 : 70); /* three pages and more */
    CHECK(infer_model_close(m) == INFER_OK);
    r.ids = (int32_t *)calloc((size_t)r.n, sizeof *r.ids);
    r.x = (float *)calloc((size_t)r.n * (size_t)r.width, sizeof *r.x);
    for (i = 0; i < r.n; i++) r.ids[i] = (i * 131 + 7) % r.width;
    gpu_placements(path, &r);
    free(r.ids);
    free(r.x);
}

/* Products that round their input: against exact a device is no worse than the CPU's own rounding by much. */
static void test_gpu_model_rounded(void) {
    static const char *const files[] = {"models/TinyStories-656K.Q8_0.gguf", "models/TinyStories-656K.Q4_K_M.gguf",
                                        "quants/llama256-q4_K.gguf", "quants/llama256-q6_K.gguf"};
    enum { N = 24 };
    size_t k;
    int seen = 0;
    GPU_NEEDED();
    for (k = 0; k < sizeof files / sizeof *files; k++) {
        const char *path = check_data(files[k]);
        FILE *f = fopen(path, "rb");
        infer_model *m;
        arch_ref r;
        float *out = NULL;
        double rounded = 0;
        int32_t i, g;
        if (f) fclose(f);
        else path = check_reference(files[k]);
        if (!path) continue;
        seen++;
        check_detail = files[k];
        check_live = check_fail_at = 0;
        memset(&r, 0, sizeof r);
        for (g = 0; g < 3; g++) { /* exact on the CPU, quantised there, quantised on the device */
            infer_session *s;
            size_t n;
            gpu_exact = g == 0;
            m = gpu_open(path, g == 2 ? check_backend() : INFER_CPU, 0);
            gpu_exact = 1;
            if (!m) break;
            r.width = m->hp.n_vocab;
            r.n = N;
            n = (size_t)r.n * (size_t)r.width;
            if (g == 0) {
                r.ids = (int32_t *)calloc(N, sizeof *r.ids);
                r.x = (float *)calloc(n, sizeof *r.x);
                out = (float *)calloc(n, sizeof *out);
                for (i = 0; i < N; i++) r.ids[i] = (i * 131 + 7) % r.width;
            }
            s = arch_session(m, 1, 0);
            if (s && g < 2) arch_eval(s, &r, 0, N, N, g ? out : r.x);
            if (s && g == 1) rounded = check_nmse(out, r.x, n);
            for (i = 0; s && g == 2 && i < 3; i++) { /* with 1, 3 and 8 rows a pass */
                static const int32_t each[] = {1, 3, 8};
                double nmse;
                CHECK(infer_session_rewind(s, 0) == INFER_OK);
                memset(out, 0, n * sizeof *out);
                arch_eval(s, &r, 0, N, each[i], out);
                nmse = check_nmse(out, r.x, n);
                CHECK(nmse > 1e-8); /* quantised at all */
                CHECK(nmse <= 1.2 * rounded + 1e-6);
            }
            infer_session_destroy(s);
            CHECK(infer_model_close(m) == INFER_OK);
        }
        free(r.ids);
        free(r.x);
        free(out);
        CHECK(check_live == 0);
    }
    check_detail = "";
    if (!seen) SKIP("needs INFER_TEST_DATA");
}

/* ---- what crosses the bus --------------------------------------------------------------------------------------------- */

static void test_gpu_model_traffic(void) {
    infer_model *m;
    infer_session *s = NULL;
    infer_session_params p;
    infer_stats st;
    infer_token ids[40];
    infer_error e;
    int32_t i;
    long allocs;
    uint64_t block, vocab;
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    m = gpu_open(check_data("models/stories260K.F32.gguf"), check_backend(), 99);
    if (!m) return;
    memset(&p, 0, sizeof p);
    memset(&st, 0, sizeof st);
    p.context = 128;
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
    for (i = 0; i < 40; i++) ids[i] = 3 + i * 7;
    vocab = (uint64_t)m->hp.n_vocab * sizeof(float);
    /* 40 rows in 3 pages: the head, then ids, positions, sequences; 1 row out; 1 sequence with two page tables */
    CHECK(infer_session_eval(s, ids, 40) == INFER_OK);
    CHECK(infer_session_stats(s, &st) == INFER_OK);
    block = sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 3 * 40 + 1 + 1 + 2 * 3);
    CHECK(st.bytes_up == block);
    CHECK(st.bytes_down == 8 && st.syncs == 1); /* the largest logit; the others stay until somebody asks */
    CHECK(infer_session_logits(s, -1) != NULL && infer_session_logits(s, -1) == infer_session_logits(s, 39));
    CHECK(infer_session_stats(s, &st) == INFER_OK);
    CHECK(st.bytes_down == 8 + vocab && st.syncs == 2);
    CHECK(st.launches > 5 * 10 && st.launches < 5 * 30);
    allocs = check_allocs;
    for (i = 0; i < 8; i++) { /* position 40: still 3 pages; from 48 on 4 */
        CHECK(infer_session_eval(s, ids + i, 1) == INFER_OK);
        CHECK(infer_session_stats(s, &st) == INFER_OK);
        CHECK(st.bytes_up == sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 3 + 1 + 1 + 2 * 3));
        /* they were asked for after the last eval: so they come with the next one, and once nobody asked, no more */
        CHECK(st.bytes_down == (i == 0 ? vocab : 8) && st.syncs == 1);
    }
    CHECK(infer_session_eval(s, ids, 1) == INFER_OK);
    CHECK(infer_session_stats(s, &st) == INFER_OK);
    CHECK(st.bytes_up == sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 3 + 1 + 1 + 2 * 4));
    CHECK(check_allocs == allocs); /* nothing is allocated during an eval */
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);

    /* half of the layers: the residual stream comes down once more, and the head's logits are the CPU's */
    m = gpu_open(check_data("models/stories260K.F32.gguf"), check_backend(), 2);
    if (!m) return;
    s = NULL;
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
    CHECK(infer_session_eval(s, ids, 40) == INFER_OK);
    CHECK(infer_session_stats(s, &st) == INFER_OK);
    CHECK(st.bytes_up == block);
    CHECK(st.bytes_down == 40 * (uint64_t)m->hp.n_embd * sizeof(float));
    CHECK(st.syncs == 1);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
}

/* ---- choosing ----------------------------------------------------------------------------------------------------------- */

static infer_result gpu_try(const char *path, int32_t backend, int32_t device, int32_t layers, infer_error *e) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.backend = backend;
    p.device = device;
    p.gpu_layers = layers;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    check_live = check_fail_at = 0;
    r = infer_model_open(&m, path, &p, e);
    CHECK((r == INFER_OK) == (m != NULL));
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
    return r;
}

/* What can be said without a device. */
static void test_gpu_model_refused(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_error e;
    CHECK(gpu_try(path, 77, 0, 0, &e) < 0);
    CHECK(gpu_try(path, INFER_CPU, 0, 5, &e) == INFER_OK);
    CHECK(gpu_try(path, INFER_AUTO, 0, 5, &e) == INFER_OK); /* a remark in the log */
    CHECK(gpu_try(path, INFER_AUTO, infer_device_count(), 0, &e) == INFER_ERR_ARGUMENT);
    CHECK(gpu_try(path, check_backend(), 0, -2, &e) == INFER_ERR_ARGUMENT);
    if (!gpu_device()) CHECK(gpu_try(path, check_backend(), 0, 0, &e) < 0 && e.message[0]);
}

static void test_gpu_model_choice(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    int32_t device = gpu_device();
    infer_session_params p;
    infer_session *s = NULL;
    infer_model *m;
    infer_error e;
    GPU_NEEDED();
    CHECK(gpu_try(path, check_backend(), device, 0, &e) == INFER_OK);
    CHECK(gpu_try(path, INFER_AUTO, device, 0, &e) == INFER_OK);
    CHECK(gpu_try(path, INFER_CPU, device, 0, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "is not of the backend");
    memset(&p, 0, sizeof p);
    m = gpu_open(path, check_backend(), 3); /* some layers on the device, some on the CPU */
    for (p.own.kv_type = INFER_KV_BF16; m && p.own.kv_type <= INFER_KV_Q4_0; p.own.kv_type++) {
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
        infer_session_destroy(s);
        s = NULL;
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Predicted before, the same after; on the device as much as is allocated there. */
static void test_gpu_model_memory(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    int32_t layers;
    GPU_NEEDED();
    for (layers = -1; layers <= 5; layers++) {
        infer_model_params mp;
        infer_context_params cp;
        infer_memory before, after, cpu;
        infer_error e;
        infer_model *m = NULL;
        infer_context *c = NULL;
        if (layers == 0) continue;
        memset(&mp, 0, sizeof mp);
        memset(&cp, 0, sizeof cp);
        cp.sessions = 2;
        mp.backend = INFER_CPU;
        CHECK(infer_model_memory_path(path, &mp, &cp, &cpu, &e) == INFER_OK);
        CHECK(cpu.device == 0);
        mp.backend = check_backend();
        mp.gpu_layers = layers;
        CHECK(infer_model_memory_path(path, &mp, &cp, &before, &e) == INFER_OK);
        CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK);
        if (!m) return;
        CHECK(infer_context_create(&c, m, &cp, &e) == INFER_OK);
        CHECK(infer_context_memory(c, &after) == INFER_OK);
        CHECK(before.device == after.device && before.cache == after.cache);
        CHECK((m->devices[0].gpu == NULL) == (layers < 0)); /* it was there, but not needed */
        if (layers > 0) CHECK(infer__gpu_used(m->devices[0].gpu) == after.device); /* what is predicted is what is allocated */
        CHECK((before.device == 0) == (layers < 0));
        if (layers == 2) CHECK(before.cache == cpu.cache / 5 * 3);
        if (layers == 5) CHECK(before.cache == 0 && before.device > cpu.cache + (1u << 20));
        CHECK(infer_context_destroy(c) == INFER_OK);
        CHECK(infer_model_close(m) == INFER_OK);
    }
}

/* ---- a cache of compiled kernels, in memory ------------------------------------------------------------------------------- */

static struct {
    struct { char key[96]; char *data; size_t size; } rows[8];
    int n, puts;
} kernel_store;
static size_t kernel_store_get(void *user, const char *key, void *dst, size_t cap) {
    int i;
    (void)user;
    for (i = 0; i < kernel_store.n; i++)
        if (strcmp(kernel_store.rows[i].key, key) == 0) {
            if (cap >= kernel_store.rows[i].size) memcpy(dst, kernel_store.rows[i].data, kernel_store.rows[i].size);
            return kernel_store.rows[i].size;
        }
    return 0;
}
static void kernel_store_put(void *user, const char *key, const void *data, size_t n) {
    int i;
    (void)user;
    kernel_store.puts++;
    for (i = 0; i < kernel_store.n && strcmp(kernel_store.rows[i].key, key) != 0; i++) {}
    if (i == 8) return;
    if (i == kernel_store.n) kernel_store.n++;
    else free(kernel_store.rows[i].data);
    snprintf(kernel_store.rows[i].key, sizeof kernel_store.rows[i].key, "%s", key);
    kernel_store.rows[i].data = (char *)malloc(n);
    kernel_store.rows[i].size = n;
    memcpy(kernel_store.rows[i].data, data, n);
}

/* ---- the rest of a session's life --------------------------------------------------------------------------------------- */

static int gpu_steps;
static double gpu_trace_sum;
static void gpu_trace(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    size_t i;
    (void)user; (void)layer; (void)step;
    gpu_steps++;
    for (i = 0; i < rows * cols; i++) gpu_trace_sum += fabs(x[i]);
}

/* Saved on the device (its first layers), loaded on the CPU and back; the trace sees the same values. */
static void gpu_state_of(const char *file, int32_t layers) {
    const char *path = check_data(file);
    infer_model *m[2];
    infer_session *s[2] = { NULL, NULL };
    infer_session_params p;
    infer_error e;
    infer_token ids[30];
    state_bytes b;
    double sums[2];
    int steps[2], i;
    check_detail = file;
    check_live = check_fail_at = 0;
    memset(&p, 0, sizeof p);
    p.context = 64;
    p.trace = gpu_trace;
    for (i = 0; i < 30; i++) ids[i] = (5 + i * 11) % 128;
    m[0] = gpu_open(path, check_backend(), layers);
    m[1] = gpu_open(path, INFER_CPU, 0);
    for (i = 0; i < 2 && m[0] && m[1]; i++) {
        CHECK(infer_session_create(&s[i], m[i], &p, &e) == INFER_OK);
        gpu_steps = 0;
        gpu_trace_sum = 0;
        CHECK(infer_session_eval(s[i], ids, 20) == INFER_OK);
        sums[i] = gpu_trace_sum;
        steps[i] = gpu_steps;
    }
    if (s[0] && s[1]) {
        CHECK(steps[0] == steps[1] && steps[0] >= 4 * m[1]->hp.n_layer);
        CHECK(fabs(sums[0] - sums[1]) < 1e-5 * sums[1]);
        for (i = 0; i < 2; i++) { /* from the device to the CPU, then back */
            memset(&b, 0, sizeof b);
            CHECK(infer_session_save(s[i], state_write, &b) == INFER_OK);
            CHECK(infer_session_rewind(s[1 - i], 0) == INFER_OK);
            CHECK(infer_session_load(s[1 - i], state_read, &b) == INFER_OK);
            CHECK(infer_session_position(s[1 - i]) == 20);
            CHECK(infer_session_eval(s[0], ids + 20, 10) == INFER_OK);
            CHECK(infer_session_eval(s[1], ids + 20, 10) == INFER_OK);
            gpu_close_to("after load", infer_session_logits(s[0], -1), infer_session_logits(s[1], -1), (size_t)m[0]->hp.n_vocab);
            CHECK(infer_session_rewind(s[0], 20) == INFER_OK);
            CHECK(infer_session_rewind(s[1], 20) == INFER_OK);
            free(b.p);
        }
    }
    for (i = 0; i < 2; i++) {
        infer_session_destroy(s[i]);
        CHECK(infer_model_close(m[i]) == INFER_OK);
    }
    CHECK(check_live == 0);
    check_detail = "";
}

/* Keys and values; cells of convolutions, delta nets and state spaces, with half of the layers there and with all. */
static void test_gpu_model_state(void) {
    GPU_NEEDED();
    gpu_state_of("models/stories260K.F32.gguf", 3);
    gpu_state_of("archs/qwen35-dense.gguf", 1);
    gpu_state_of("archs/falcon-h1-groups-dense.gguf", 1);
    gpu_state_of("archs/mamba-plain-dense.gguf", 0);
}

/* The last logits after these tokens. */
static void gpu_goes_on(infer_session *s, const infer_token *ids, int32_t n, float *out, size_t width) {
    const float *got = NULL;
    CHECK(infer_session_eval(s, ids, n) == INFER_OK && (got = infer_session_logits(s, -1)) != NULL);
    if (got) memcpy(out, got, width * sizeof *out);
    else memset(out, 0, width * sizeof *out);
}

static void gpu_state_back(infer_session *s, state_bytes *b) {
    state_bytes again;
    memset(&again, 0, sizeof again);
    b->at = 0;
    CHECK(infer_session_load(s, state_read, b) == INFER_OK);
    CHECK(infer_session_save(s, state_write, &again) == INFER_OK);
    CHECK(again.n == b->n && memcmp(again.p, b->p, b->n) == 0);
    free(again.p);
}

/* From s to a session t of the same model and o of one elsewhere: what is saved comes back as the same bytes, s and t go
 * on with the same bits, o near them. So do forks, and what was before a rewind; a page that two share is not changed. */
static void gpu_state_kv(infer_session *s, infer_session *t, infer_session *o, size_t n) {
    enum { SAVED = 21, ALL = 40 };
    static float x[512], y[512];
    infer_session *f = NULL;
    infer_token ids[2 * ALL];
    infer_error e;
    state_bytes b;
    int i;
    memset(&b, 0, sizeof b);
    for (i = 0; i < 2 * ALL; i++) ids[i] = 5 + i * 11 % 400;
    CHECK(n <= 512 && infer_session_eval(s, ids, SAVED) == INFER_OK);
    CHECK(infer_session_save(s, state_write, &b) == INFER_OK);
    CHECK(infer_session_eval(t, ids + 7, 33) == INFER_OK && infer_session_eval(o, ids + 9, 2) == INFER_OK);
    gpu_state_back(t, &b); /* instead of other tokens */
    gpu_state_back(o, &b);
    gpu_goes_on(s, ids + SAVED, ALL - SAVED, x, n);
    gpu_goes_on(t, ids + SAVED, ALL - SAVED, y, n);
    CHECK(memcmp(x, y, n * sizeof *x) == 0);
    gpu_goes_on(o, ids + SAVED, ALL - SAVED, y, n);
    gpu_close_to("loaded elsewhere", y, x, n);
    CHECK(infer_session_fork(&f, s, &e) == INFER_OK);
    CHECK(infer_session_rewind(s, SAVED - 2) == INFER_OK);
    if (!f) return;
    CHECK(infer_session_eval(s, ids + ALL, ALL - SAVED) == INFER_OK); /* other tokens: not where the fork reads */
    gpu_goes_on(f, ids + 3, 1, x, n);
    gpu_goes_on(t, ids + 3, 1, y, n);
    CHECK(memcmp(x, y, n * sizeof *x) == 0);
    CHECK(infer_session_rewind(f, SAVED) == INFER_OK && infer_session_rewind(t, SAVED) == INFER_OK);
    gpu_goes_on(f, ids + ALL, 5, x, n);
    gpu_goes_on(t, ids + ALL, 5, y, n);
    CHECK(memcmp(x, y, n * sizeof *x) == 0);
    gpu_state_back(s, &b); /* after all this */
    gpu_goes_on(s, ids + ALL, 5, y, n);
    CHECK(memcmp(x, y, n * sizeof *x) == 0);
    infer_session_destroy(f);
    free(b.p);
}

/* Every type of cache: on a device, from it to the CPU and back. */
static void test_gpu_model_state_kv(void) {
    static const char *const names[] = { "F32", "F16", "BF16", "Q8_0", "Q4_0" };
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_model *m[2];
    infer_session *s[3];
    infer_session_params p;
    infer_error e;
    int32_t type;
    int i, from;
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    m[0] = gpu_open(path, check_backend(), 99);
    m[1] = gpu_open(path, INFER_CPU, 0);
    memset(&p, 0, sizeof p);
    p.context = 128;
    p.own.cells = 256; /* a fork's too */
    for (type = INFER_KV_F32; m[0] && m[1] && type <= INFER_KV_Q4_0; type++)
        for (from = 0; from < 2; from++) {
            check_detail = names[type - INFER_KV_F32];
            gpu_limit = gpu_limit_of(type);
            p.own.kv_type = type;
            for (i = 0; i < 3; i++) s[i] = NULL;
            for (i = 0; i < 3; i++) CHECK(infer_session_create(&s[i], m[i < 2 ? from : 1 - from], &p, &e) == INFER_OK);
            if (s[0] && s[1] && s[2]) gpu_state_kv(s[0], s[1], s[2], (size_t)m[0]->hp.n_vocab);
            for (i = 0; i < 3; i++) infer_session_destroy(s[i]);
        }
    for (i = 0; i < 2; i++) CHECK(infer_model_close(m[i]) == INFER_OK);
    gpu_limit = GPU_LIMIT;
    check_detail = "";
    CHECK(check_live == 0);
}

/* Two contexts of one model on two threads, each with its own queue. */
typedef struct gpu_thread { infer_model *m; float *out; infer_result r; } gpu_thread;
static void gpu_thread_run(void *arg) {
    gpu_thread *t = (gpu_thread *)arg;
    infer_session *s = NULL;
    infer_session_params p;
    infer_error e;
    infer_token ids[24];
    int i;
    memset(&p, 0, sizeof p);
    p.context = 64;
    for (i = 0; i < 24; i++) ids[i] = 9 + i * 13;
    t->r = infer_session_create(&s, t->m, &p, &e);
    for (i = 0; i < 24 && !t->r; i++) t->r = infer_session_eval(s, ids + i, 1);
    if (!t->r) memcpy(t->out, infer_session_logits(s, -1), (size_t)t->m->hp.n_vocab * sizeof(float));
    infer_session_destroy(s);
}

static void test_gpu_model_threads(void) {
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    gpu_thread t[2];
    infer__thread th;
    int i;
    GPU_NEEDED();
    memset(t, 0, sizeof t);
    memset(&mp, 0, sizeof mp); /* not check_alloc: it counts without locks */
    mp.backend = check_backend();
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &e) == INFER_OK);
    if (!m) return;
    for (i = 0; i < 2; i++) {
        t[i].m = m;
        t[i].out = (float *)calloc((size_t)m->hp.n_vocab, sizeof(float));
    }
    if (infer__thread_start(&th, gpu_thread_run, &t[1])) {
        gpu_thread_run(&t[0]);
        infer__thread_join(&th);
        CHECK(t[0].r == INFER_OK && t[1].r == INFER_OK);
        CHECK(memcmp(t[0].out, t[1].out, (size_t)m->hp.n_vocab * sizeof(float)) == 0);
    }
    CHECK(infer_model_close(m) == INFER_OK);
    free(t[0].out);
    free(t[1].out);
}

/* Embeddings given as rows, hidden states kept, half on the device. */
static void gpu_embeddings(const char *path, int32_t some) {
    float *rows = NULL, *hidden[3], was;
    int32_t i, j, width = 0;
    infer_error e;
    const int32_t layers[3] = { 0, 99, some };
    check_detail = path;
    for (i = 0; i < 3; i++) {
        infer_model *m = gpu_open(path, i ? check_backend() : INFER_CPU, layers[i]);
        infer_session *s = NULL;
        infer_session_params p;
        infer_step st;
        hidden[i] = NULL;
        memset(&p, 0, sizeof p);
        memset(&st, 0, sizeof st);
        p.context = 32;
        if (!m) continue;
        width = m->hp.n_embd;
        if (!rows) rows = (float *)calloc((size_t)width * 5, sizeof *rows);
        for (j = 0; j < 5 * width; j++) rows[j] = (float)((j * 37) % 101 - 50) / 50;
        hidden[i] = (float *)calloc((size_t)width * 5, sizeof(float));
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
        st.session = s;
        st.embeddings = rows;
        st.n = 5;
        st.outputs = INFER_OUT_HIDDEN;
        CHECK(infer_eval(s->context, &st, 1, &e) == INFER_OK);
        for (j = 0; j < 5 && !check_bad; j++)
            memcpy(hidden[i] + j * width, infer_session_hidden(s, j), (size_t)width * sizeof(float));
        was = rows[3 * width + 2]; /* not finite: it says where it began, looking at the device, and stands still */
        rows[3 * width + 2] = 1e30f;
        rows[3 * width + 2] *= 1e30f;
        st.outputs = INFER_OUT_ALL;
        CHECK(infer_eval(s->context, &st, 1, &e) == INFER_ERR_STATE && infer_session_position(s) == 5);
        CHECK_HAS(e.message, "the embedding has a value that is not finite");
        rows[3 * width + 2] = was;
        CHECK(infer_eval(s->context, &st, 1, &e) == INFER_OK);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    for (i = 1; i < 3 && hidden[0] && hidden[i]; i++) gpu_close_to("embeddings", hidden[i], hidden[0], (size_t)width * 5);
    for (i = 0; i < 3; i++) free(hidden[i]);
    free(rows);
}

static void test_gpu_model_embeddings(void) {
    GPU_NEEDED();
    gpu_embeddings(check_data("models/stories260K.F32.gguf"), 2);
    gpu_embeddings(check_data("archs/gemma4-sharedkv-dense.gguf"), 1); /* whose rows have inputs of each layer */
}

/* The caller's cache of binaries: filled by the first model, enough for the second, not trusted. */
static void test_gpu_model_cache(void) {
    infer_model_params mp;
    infer_session_params p;
    infer_error e;
    int round, n = 0;
    if (check_backend() == INFER_METAL) return; /* the system keeps its programs */
    GPU_NEEDED();
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    memset(&kernel_store, 0, sizeof kernel_store);
    mp.backend = check_backend();
    mp.cache.get = kernel_store_get;
    mp.cache.put = kernel_store_put;
    p.context = 32;
    for (round = 0; round < 3; round++) {
        infer_model *m = NULL;
        infer_session *s = NULL;
        infer_token id = 1;
        int puts = kernel_store.puts, k;
        if (round == 2) /* damaged: compiled anew, put again */
            for (k = 0; k < kernel_store.n; k++) kernel_store.rows[k].data[kernel_store.rows[k].size / 2] ^= 1;
        CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &e) == INFER_OK);
        if (!m) return;
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
        CHECK(infer_session_eval(s, &id, 1) == INFER_OK);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
        if (round == 0) n = kernel_store.n; /* base, a cache type, a storage type; special ones for these */
        CHECK(n >= 3 && kernel_store.n == n);
        CHECK(kernel_store.puts - puts == (round == 1 ? 0 : n));
    }
    for (round = 0; round < kernel_store.n; round++) free(kernel_store.rows[round].data);
}

#include "test_gpu_model_faults.c"
#include "test_gpu_sample.c"
#include "test_gpu_record.c"
#include "test_gpu_experts.c"
#include "test_gpu_lacks.c"

/* Rows that give devices no op, and no order of ops, that none of the others does. Of the dense ones that came with them
 * these stay: bitnet (norms before the last matrices, scales of matrices), falcon (both sublayers of a parallel block have
 * norms), muse-glimmer (bare norm of embeddings, gates of values, another epsilon after sublayers), spark2_5 (gates of
 * heads, a gated GELU by erf). */
static const char *const GPU_AS_OTHERS[] = {
    "baichuan", "chatglm", "codeshell", "cogvlm", "deci", "deepseek32", "ernie4_5", "exaone-moe", "exaone4", "glm4", "granite_swa",
    "hunyuan-dense", "hunyuan_vl", "jais", "jais2", "llada", "llada-moe", "maincoder", "minicpm3", "mistral4", "nanbeige", "openelm", "paddleocr",
    "pangu-embedded", "plamo", "plamo3", "pockettts", "qwen", "qwen2vl", "qwen3tts", "qwen3vl", "refact", "rnd1", "starcoder", "xverse" };

/* The architecture of a file of ARCH_FILES: the longest name that it begins with. */
static const char *gpu_row_of(const char *file) {
    const char *name, *best = "";
    int32_t i;
    for (i = 0; (name = infer_arch_name(i)) != NULL; i++)
        if (strncmp(file, name, strlen(name)) == 0 && file[strlen(name)] == '-' && strlen(name) > strlen(best)) best = name;
    return best;
}

/* 1 for the first file of each architecture: what its other files vary is the CPU's to test. */
static int gpu_first_of_row(size_t i) {
    const char *row = gpu_row_of(ARCH_FILES[i]);
    size_t k;
    if (!row[0]) return 0; /* hf/ */
    for (k = 0; k < sizeof GPU_AS_OTHERS / sizeof *GPU_AS_OTHERS; k++)
        if (strcmp(row, GPU_AS_OTHERS[k]) == 0) return 0;
    for (k = 0; k < i; k++)
        if (strcmp(row, gpu_row_of(ARCH_FILES[k])) == 0) return 0;
    return 1;
}

static void suite_gpu_models(void) {
    static const char *const models[] = {
        "models/stories260K.F32.gguf", "models/stories260K.Q8_0.gguf", "models/gpt-nano-sort.F32.gguf",
        "models/TinyStories-656K.F32.gguf", "models/TinyStories-656K.F16.gguf", "models/TinyStories-656K.Q8_0.gguf",
        "models/TinyStories-656K.Q4_0.gguf", "models/TinyStories-656K.Q4_K_M.gguf" /* Q5_0, Q8_0 */,
        "models/TinyStories-656K.Q5_1.gguf", "models/TinyStories-656K.IQ4_NL.gguf" };
    static char name[112], file[96];
    const infer__quant *q;
    size_t i, j;
    for (i = j = 0; i < sizeof ARCH_FILES / sizeof *ARCH_FILES; i++) {
        if (!gpu_first_of_row(i) || j++ % gpu_every()) continue;
        arch_file = ARCH_FILES[i];
        snprintf(name, sizeof name, "gpu_arch_%s", arch_file);
        if (CHECK_DEVICES) check_run(name, gpu_arch_run);
    }
    for (i = 0; i < sizeof models / sizeof *models; i += (size_t)gpu_every()) {
        gpu_model_file = models[i];
        snprintf(name, sizeof name, "gpu_model_%s", gpu_model_file);
        if (CHECK_DEVICES) check_run(name, gpu_model_run);
    }
    for (i = 0; (q = infer__quant_row((int32_t)i)) != NULL; i += (size_t)gpu_every()) { /* a model of each type of weights */
        if (!q->storable || (q->values == 1 && !q->encode)) continue; /* no models of whole numbers or doubles */
        snprintf(file, sizeof file, "quants/llama256-%s.gguf", q->name);
        for (j = strlen("quants/llama256-"); file[j]; j++)
            if (file[j] >= 'A' && file[j] <= 'Z' && file[j] != 'K') file[j] = (char)(file[j] - 'A' + 'a');
        gpu_model_file = file;
        snprintf(name, sizeof name, "gpu_model_%s", file);
        if (CHECK_DEVICES) check_run(name, gpu_model_run);
    }
    RUN_DEVICE(test_gpu_model_rounded);
    RUN_DEVICE(test_gpu_model_experts);
    RUN_DEVICE(test_gpu_model_traffic);
    RUN_DEVICE(test_gpu_model_sample_traffic);
    RUN_DEVICE(test_gpu_model_sample_equal);
    RUN(test_gpu_model_refused);
    RUN_DEVICE(test_gpu_model_choice);
    RUN_DEVICE(test_gpu_model_type);
    RUN_DEVICE(test_gpu_model_lacks);
    RUN_DEVICE(test_gpu_model_gemma4);
    RUN_DEVICE(test_gpu_model_shared);
    RUN_DEVICE(test_gpu_model_memory);
    RUN_DEVICE(test_gpu_model_state);
    RUN_DEVICE(test_gpu_model_state_kv);
    RUN_DEVICE(test_gpu_model_threads);
    RUN_DEVICE(test_gpu_model_embeddings);
    RUN_DEVICE(test_gpu_model_cache);
    if (check_backend() == INFER_OPENCL) RUN_DEVICE(test_gpu_model_faults); /* it wraps that API */
    RUN_DEVICE(test_gpu_model_oom);
    RUN_DEVICE(test_gpu_model_release);
    RUN_DEVICE(test_gpu_record);
    RUN_DEVICE(test_gpu_record_faults);
    RUN_DEVICE(test_gpu_record_apart);
    RUN_DEVICE(test_gpu_profile);
}
