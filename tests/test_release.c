/* test_release.c: weights that leave memory while the model stays open, and come back: the same bits, what works meanwhile,
 * who may not do it, and failures on the way back. */

enum { RELEASE_IDS = 24 };
typedef struct release_file { char *data; size_t n, stop; } release_file;
static size_t release_read(void *user, uint64_t offset, void *dst, size_t n) {
    release_file *f = (release_file *)user;
    if (f->stop && --f->stop == 0) return 0;
    memcpy(dst, f->data + offset, n);
    return n;
}

/* way 0: mapped, 1: read, 2: by callbacks. */
static infer_model *release_open(const char *name, int way, release_file *f) {
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    infer_io io;
    char path[128];
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&io, 0, sizeof io);
    memset(f, 0, sizeof *f);
    mp.backend = INFER_CPU;
    mp.no_mmap = way == 1;
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    snprintf(path, sizeof path, "archs/%s.gguf", name);
    if (way == 2) {
        f->data = check_read(check_data(path), &f->n);
        io.read = release_read;
        io.user = f;
        io.size = f->n;
        r = infer_model_open_io(&m, &io, 1, &mp, &e);
    } else r = infer_model_open(&m, check_data(path), &mp, &e);
    if (r) check_note(__FILE__, __LINE__, e.message);
    return m;
}
static infer_session *release_session(infer_model *m) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = 64;
    p.own.threads = 1;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

/* Of weights unchanged, cut, transposed and computed when the model opened: a session goes on with the bits of one
 * whose model kept its weights. */
static void test_release_same(void) {
    static const char *const files[] = { "llama-dense",  "gemma3-real-dense", "kimi-linear-moe",   "nemotron_h-dense", "rwkv7-small-dense",
                                         "gpt2-tied-dense", "deepseek4-topk-moe", "deepseek2-yarn-moe", "phi3-partial-dense", "graniteswitch-dense" };
    size_t f;
    for (f = 0; f < 3 * INFER__COUNT(files) && check_bad < 5; f += (size_t)check_every(7)) {
        release_file file, other;
        infer_model *m = release_open(files[f / 3], (int)(f % 3), &file), *k = release_open(files[f / 3], 0, &other);
        infer_session *s = m ? release_session(m) : NULL, *t = k ? release_session(k) : NULL, *u = NULL;
        infer_token ids[RELEASE_IDS];
        infer_error e;
        char text[8];
        float row[1024];
        size_t n;
        int i;
        check_detail = files[f / 3];
        if (m) cache_ids(ids, RELEASE_IDS, 5, m->hp.n_vocab);
        for (i = 0; s && t && i < 2; i++) {
            int64_t used;
            CHECK(infer_session_eval(s, ids, 9) == INFER_OK && infer_session_eval(t, ids, 9) == INFER_OK);
            used = infer__atomic_get(&m->mem.used);
            CHECK(infer_model_offload(m, &e) == INFER_OK);
            CHECK(f % 3 == 0 || infer__atomic_get(&m->mem.used) < used - (int64_t)m->gguf.tensor_bytes / 2);
            CHECK(infer_model_offload(m, &e) == INFER_OK);
            CHECK(infer_session_eval(s, ids, 1) == INFER_ERR_STATE && infer_session_position(s) == 9 * (i + 1) + i);
            CHECK_HAS(infer_session_error(s)->message, "offloaded; infer_model_reload");
            CHECK(infer_session_create(&u, m, NULL, &e) == INFER_ERR_STATE && u == NULL);
            CHECK(infer_tensor_read(m, "token_embd.weight", 0, 1, row, &e) == INFER_ERR_STATE);
            CHECK(infer_detokenize(m, ids, 1, 0, text, sizeof text, &n, &e) == INFER_OK || e.code == INFER_ERR_UNSUPPORTED);
            CHECK(infer_meta_count(m) > 3);
            CHECK(infer_model_reload(m, &e) == INFER_OK);
            /* tensors that were only there to make others are not read again */
            CHECK(infer__atomic_get(&m->mem.used) <= used && infer__atomic_get(&m->mem.used) > used / 2);
            CHECK(infer_model_reload(m, &e) == INFER_OK);
            CHECK(infer_session_eval(s, ids + 9, 1) == INFER_OK && infer_session_eval(t, ids + 9, 1) == INFER_OK);
            CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), (size_t)m->hp.n_vocab * sizeof(float)) == 0);
        }
        if (m && k && (CHECK(infer_model_offload(m, &e) == INFER_OK), f % 2)) CHECK(infer_model_reload(m, &e) == INFER_OK);
        infer_session_destroy(s); /* also while they are away */
        infer_session_destroy(t);
        CHECK(infer_model_close(m) == INFER_OK);
        CHECK(infer_model_close(k) == INFER_OK);
        free(file.data);
    }
}

/* Every allocation and every read on the way back fails once: the weights are away as before, and come back when asked again. */
static void test_release_fails(void) {
    int way;
    for (way = 1; way < 3; way++) {
        release_file file;
        infer_model *m = release_open("llama-dense", way, &file);
        infer_session *s = m ? release_session(m) : NULL;
        infer_token ids[RELEASE_IDS];
        infer_result r = INFER_ERR_IO;
        infer_error e;
        float want[128];
        long live, n, fails = 0;
        cache_ids(ids, RELEASE_IDS, 5, 128);
        if (!s) { CHECK(0); return; }
        CHECK(infer_session_eval(s, ids, 9) == INFER_OK);
        memcpy(want, infer_session_logits(s, -1), sizeof want);
        CHECK(infer_model_offload(m, &e) == INFER_OK);
        live = check_live;
        for (n = 1; r && n < 1000; n++) {
            check_allocs = 0;
            if (way == 1) check_fail_at = n;
            else file.stop = (size_t)n;
            r = infer_model_reload(m, &e);
            check_fail_at = 0;
            file.stop = 0;
            if (!r) break;
            fails++;
            CHECK(r == (way == 1 ? INFER_ERR_MEMORY : INFER_ERR_IO) && e.message[0] && check_live == live);
            CHECK(infer_session_eval(s, ids, 1) == INFER_ERR_STATE);
        }
        CHECK(r == INFER_OK && fails > 10);
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, 9) == INFER_OK);
        CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
        free(file.data);
    }
}

static infer_model *release_model;
static int release_tries;
static int release_progress(void *user, float done) {
    infer_error e;
    (void)user;
    (void)done;
    CHECK(infer_model_offload(release_model, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "another call uses the weights");
    release_tries++;
    return 0;
}

/* Not while an eval runs, or waits for its next slice; not of memory that is the caller's; not of nothing. */
static void test_release_refused(void) {
    infer_session_params p;
    infer_model_params mp;
    infer_session *s = NULL;
    infer_step st;
    infer_token ids[RELEASE_IDS];
    infer_error e;
    infer_result r;
    release_file file;
    size_t n = 0;
    char *data;
    cache_ids(ids, RELEASE_IDS, 5, 128);
    memset(&p, 0, sizeof p);
    memset(&mp, 0, sizeof mp);
    memset(&st, 0, sizeof st);
    CHECK(infer_model_offload(NULL, &e) == INFER_ERR_ARGUMENT && infer_model_reload(NULL, &e) == INFER_ERR_ARGUMENT);
    release_model = release_open("llama-dense", 1, &file);
    p.context = 64;
    p.own.threads = 1;
    p.progress = release_progress;
    release_tries = 0;
    if (!release_model || infer_session_create(&s, release_model, &p, &e)) { CHECK(0); return; }
    CHECK(infer_session_eval(s, ids, 9) == INFER_OK && release_tries > 0);
    s->progress = NULL;
    st.session = s;
    st.tokens = ids;
    st.n = 9;
    st.outputs = INFER_OUT_LAST;
    r = infer_eval_slice(s->context, &st, 1, 0, &e);
    CHECK(r == INFER_MORE && infer_model_offload(release_model, NULL) == INFER_ERR_STATE);
    while (r == INFER_MORE) r = infer_eval_slice(s->context, &st, 1, 0, &e);
    CHECK(r == INFER_OK && infer_model_offload(release_model, &e) == INFER_OK);
    CHECK(infer_eval_slice(s->context, &st, 1, 0, &e) == INFER_ERR_STATE);
    CHECK(infer_model_reload(release_model, &e) == INFER_OK);
    CHECK(infer_eval_slice(s->context, &st, 1, 0, &e) == INFER_MORE);
    CHECK(infer_eval_slice(s->context, NULL, 0, 0, &e) == INFER_OK); /* given up: nobody holds them any more */
    CHECK(infer_model_offload(release_model, &e) == INFER_OK);
    infer_session_destroy(s);
    CHECK(infer_model_close(release_model) == INFER_OK);
    data = check_read(check_data("archs/llama-dense.gguf"), &n);
    mp.backend = INFER_CPU;
    CHECK(data && infer_model_open_memory(&release_model, data, n, &mp, &e) == INFER_OK);
    CHECK(infer_model_offload(release_model, &e) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(e.message, "memory that the caller gave");
    CHECK(infer_model_close(release_model) == INFER_OK);
    free(data);
}

#if defined(__linux__)
/* Kilobytes of a mapping that are in the process's memory. */
static long release_resident(const void *map) {
    FILE *f = getenv("CHECK_EMULATED") ? NULL : fopen("/proc/self/smaps", "r"); /* qemu-user knows no resident pages */
    char line[512], begin[32];
    long kb = -1;
    int here = 0;
    snprintf(begin, sizeof begin, "%lx-", (unsigned long)(uintptr_t)map);
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, begin, strlen(begin)) == 0) here = 1;
        else if (here && strncmp(line, "Rss:", 4) == 0) {
            kb = atol(line + 4);
            break;
        }
    }
    if (f) fclose(f);
    return kb;
}
#endif

/* Mapped pages go to the system, and preloaded ones are there again afterwards. */
static void test_release_pages(void) {
#if defined(__linux__)
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    const void *map;
    long before;
    memset(&mp, 0, sizeof mp);
    mp.backend = INFER_CPU;
    mp.no_mmap = -1;
    mp.preload = 1;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &e) == INFER_OK);
    if (!m) return;
    map = m->gguf.sources[0].file.map;
    if (!map || (before = release_resident(map)) < 0) {
        check_skip_test(getenv("CHECK_EMULATED") ? "cpu: resident pages are not known here (/proc/self/smaps)" : "no mapping, or no /proc/self/smaps");
    } else {
        CHECK(before > 500);
        CHECK(infer_model_offload(m, &e) == INFER_OK && release_resident(map) < 64);
        CHECK(infer_model_reload(m, &e) == INFER_OK && release_resident(map) > before - 100);
    }
    CHECK(infer_model_close(m) == INFER_OK);
#endif
}

static void suite_release(void) {
    RUN(test_release_same);
    RUN(test_release_fails);
    RUN(test_release_refused);
    RUN(test_release_pages);
}
