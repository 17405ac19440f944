/* test_gpu_upload.c: weights on their way to devices: in pieces, on a thread, in slices; calls that fail, and memory; what the CPU forgets
 * of them. Behind test_gpu_places.c. */

enum { UPLOAD_ALONE, UPLOAD_THREAD, UPLOAD_SLICES, UPLOAD_WAYS };
static int upload_slices; /* of the last UPLOAD_SLICES that was not over */

/* The weights once more, in pieces of so many bytes. */
static infer_result upload_send(infer_model *m, uint64_t piece, int way, infer_error *e) {
    infer__upload *u = NULL;
    infer__budget budget;
    infer_result r;
    int32_t jobs;
    infer__place_drop(m);
    memset(&budget, 0, sizeof budget);
    budget.end = infer__slice_end(way == UPLOAD_SLICES ? 0 : -1);
    upload_slices = 0;
    infer__error_clear(e);
    r = infer__upload_begin(m, &u, e);
    CHECK(u && (uint64_t)(u->next - u->stage) <= infer__upload_count(m, &jobs) && u->n_jobs <= jobs);
    if (!u) return r;
    u->piece = piece;
    while (!r && (r = infer__upload_run(u, way == UPLOAD_THREAD, &budget, e)) == INFER_MORE) { r = INFER_OK; upload_slices++; }
    CHECK(!u->gpu && u->waiting == 0);
    infer__upload_free(m, &u);
    return r;
}

static struct { float last; int calls, cancel_at, backwards; } upload_seen;
static int upload_progress(void *user, float done) {
    (void)user;
    if (done < upload_seen.last) upload_seen.backwards++;
    upload_seen.last = done;
    return ++upload_seen.calls == upload_seen.cancel_at;
}

/* In pieces, on a thread and without, in slices: the same weights, and the progress that was made; cancelled between pieces. */
static void test_gpu_upload_pieces(void) {
    static const float halves[2] = {1, 1};
    static const uint64_t pieces[] = {1000, 70000, 1 << 30};
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_model *m, *cpu;
    infer_token ids[20];
    infer_error e;
    size_t i;
    int way, j;
    PLACES_MAPPED();
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    for (j = 0; j < 20; j++) ids[j] = 5 + j * 11;
    m = places_open(path, 2, halves, 5);
    cpu = gpu_open(path, INFER_CPU, 0);
    for (i = 0; i < sizeof pieces / sizeof *pieces && m && cpu; i++)
        for (way = 0; way < UPLOAD_WAYS; way++) {
            infer_session *s = NULL, *want = NULL;
            infer_session_params p;
            memset(&p, 0, sizeof p);
            p.context = 64;
            memset(&upload_seen, 0, sizeof upload_seen);
            m->params.progress = upload_progress;
            CHECK(upload_send(m, pieces[i], way, &e) == INFER_OK);
            CHECK(upload_seen.backwards == 0 && upload_seen.last <= 1 && upload_seen.calls > (way == UPLOAD_THREAD ? -1 : 0));
            if (pieces[i] == 1000 && way != UPLOAD_THREAD) CHECK(upload_seen.calls > 200 && upload_seen.last > 0.99f);
            CHECK((upload_slices > (pieces[i] == 1000 ? 1000 : 40)) == (way == UPLOAD_SLICES)); /* a tensor or a piece each */
            CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
            CHECK(infer_session_create(&want, cpu, &p, &e) == INFER_OK);
            CHECK(infer_session_eval(s, ids, 20) == INFER_OK && infer_session_eval(want, ids, 20) == INFER_OK);
            gpu_close_to("sent again", infer_session_logits(s, -1), infer_session_logits(want, -1),
                         (size_t)m->hp.n_vocab);
            infer_session_destroy(s);
            infer_session_destroy(want);
            memset(&upload_seen, 0, sizeof upload_seen);
            upload_seen.cancel_at = 1;
            CHECK(upload_send(m, pieces[i], way, &e) == INFER_CANCELLED || (way == UPLOAD_THREAD && i > 0));
            if (way != UPLOAD_THREAD) CHECK_HAS(e.message, "cancelled while uploading layer");
            CHECK(upload_seen.calls <= 1);
            m->params.progress = NULL;
        }
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(infer_model_close(cpu) == INFER_OK);
    CHECK(check_live == 0);
}

/* Every call of the API fails once while pieces are sent. */
static void gpu_upload_faults(int way) {
    infer_model_params p;
    long i, n = 1;
    PLACES_MAPPED();
    memset(&p, 0, sizeof p);
    p.backend = INFER_OPENCL;
    for (i = 0; i <= n && check_bad < 5; i += way == UPLOAD_SLICES && i ? 5 : 1) {
        infer_model *m;
        infer_error e;
        infer_result r;
        fake_reset(0);
        places_device("One", 1 << 30);
        m = places_fake(&p, INFER_OK, &e);
        if (!m) return;
        infer__place_drop(m);
        fake.calls = 0;
        fake.fail_at = i;
        r = upload_send(m, 5000, way, &e);
        if (i == 0) n = fake.calls;
        CHECK((r != INFER_OK) == (i > 0) && fake.n_pending == 0);
        if (i > 0) CHECK_HAS(e.message, ": error -");
        fake.fail_at = 0;
        places_fake_close(m);
    }
    CHECK(n > 300);
}

static void test_gpu_upload_faults(void) {
    gpu_upload_faults(UPLOAD_ALONE);
    gpu_upload_faults(UPLOAD_SLICES);
}

/* Opened in slices: the same model; given up after any slice, or without memory at any time, nothing is left. */
static void test_gpu_upload_slices(void) {
    static const char *const names[] = {"data/models/stories260K.F32.gguf", "data/models/TinyStories-656K.Q8_0.gguf"};
    int32_t way, layers, k, seen = 0;
    for (way = 0; way < 2; way++) {
        infer_model_params p;
        infer_model *a = NULL, *b = NULL;
        infer_loading *x = NULL;
        infer_error e;
        loading_file f;
        infer_result r;
        int32_t steps = 0, stop;
        GPU_NEEDED();
        if (!loading_open(&f, names[way])) continue;
        loading_params(&p, way ? LOADING_READ : LOADING_PATH);
        p.backend = check_backend();
        p.device = gpu_device();
        check_live = check_fail_at = 0;
        CHECK(loading_whole(&a, &f, LOADING_PATH, &p, &e) == INFER_OK);
        CHECK(loading_begin(&x, &f, LOADING_PATH, &p, &e) == INFER_OK);
        while ((r = infer_loading_step(x, 0, &e)) == INFER_MORE) steps++;
        CHECK(r == INFER_OK && infer_loading_end(x, &b) == INFER_OK);
        if (a && b) {
            layers = a->device_layers;
            CHECK(layers == a->hp.n_layer && b->device_layers == layers && a->device_bytes == b->device_bytes && a->dropped_bytes == b->dropped_bytes);
            loading_same(a, b);
        }
        CHECK(infer_model_close(a) == INFER_OK && infer_model_close(b) == INFER_OK && check_live == 0);
        for (stop = way; stop < steps && !check_bad; stop += 1 + steps / (24 / check_every(4))) {
            CHECK(loading_begin(&x, &f, LOADING_PATH, &p, &e) == INFER_OK);
            for (k = 0; k < stop; k++) CHECK(infer_loading_step(x, 0, &e) == INFER_MORE);
            CHECK(infer_loading_end(x, NULL) == INFER_OK && check_live == 0);
        }
        for (k = 1 + way; k < 2000 && !check_bad; k += 60 * check_every(4)) {
            int hit;
            check_fail_at = check_allocs + k;
            x = NULL;
            r = loading_begin(&x, &f, LOADING_PATH, &p, &e);
            while (x && (r = infer_loading_step(x, 0, &e)) == INFER_MORE) {}
            hit = check_allocs >= check_fail_at;
            check_fail_at = 0;
            CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
            CHECK(infer_loading_end(x, NULL) == INFER_OK && check_live == 0);
            if (!hit) break;
        }
        CHECK(k < 2000);
        free(f.bytes);
        seen++;
    }
    CHECK(seen > 0);
}

/* A file that was read, not mapped: what devices hold is not held here as well; text and tensors are still there. */
static void test_gpu_upload_forget(void) {
    infer_model_params p;
    int32_t layers;
    memset(&p, 0, sizeof p);
    p.backend = INFER_OPENCL;
    p.no_mmap = 1;
    for (layers = -1; layers <= 5; layers += 3) { /* none, two, all */
        infer_model *m;
        infer_error e;
        infer_memory memory;
        float row[64];
        int32_t i;
        uint64_t owned = 0;
        fake_reset(0);
        places_device("One", 1 << 30);
        p.gpu_layers = layers;
        m = places_fake(&p, INFER_OK, &e);
        if (!m) return;
        for (i = 0; i < m->gguf.n_tensors; i++)
            if (m->gguf.tensors[i].owned) owned += m->gguf.tensors[i].bytes;
        CHECK(infer_model_memory(m, NULL, &memory, &e) == INFER_OK);
        CHECK(memory.weights == owned && (owned < m->gguf.tensor_bytes) == (layers > 0));
        CHECK((owned == 0) == (layers == 5));
        CHECK(layers != 2 || owned > m->gguf.tensor_bytes / 2); /* three layers and the head */
        CHECK((m->layers[1].w[INFER__W_ATTN_Q].data == NULL) == (layers > 0));
        CHECK((m->layers[4].w[INFER__W_ATTN_Q].data == NULL) == (layers == 5));
        CHECK(infer_tensor_read(m, "blk.0.attn_q.weight", 1, 1, row, &e) == INFER_OK && row[0] != 0);
        places_fake_close(m);
    }
}

static void suite_gpu_upload(void) {
    RUN_DEVICE(test_gpu_upload_pieces);
    RUN(test_gpu_upload_faults);
    RUN_DEVICE(test_gpu_upload_slices);
    RUN(test_gpu_upload_forget);
}
