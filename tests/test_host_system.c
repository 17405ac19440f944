/* test_host_system.c: the library inside of somebody's program, and the system around it: memory that is not there, files
 * that others shorten, signals and its threads, two threads that misuse one object, fork(). After test_host.c, whose
 * worlds and calls it uses. */

/* ---- memory -------------------------------------------------------------------------------------------------------- */

typedef struct host_said { int warnings; char text[600]; } host_said;
static void host_log(void *user, int level, const char *message) {
    host_said *s = (host_said *)user;
    if (level != 2) return;
    s->warnings++;
    snprintf(s->text, sizeof s->text, "%s", message);
}

static void test_host_context_beyond_training(void) {
    infer_model_params p;
    infer_session_params sp;
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_context_params cp;
    infer_session *s = NULL, *t = NULL;
    host_said said;
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    memset(&cp, 0, sizeof cp);
    memset(&said, 0, sizeof said);
    p.backend = INFER_CPU;
    p.log = host_log;
    p.log_user = &said;
    CHECK(infer_model_open(&m, check_data(HOST_STORY), &p, NULL) == INFER_OK);
    sp.context = m->hp.n_ctx;
    CHECK(infer_session_create(&s, m, &sp, NULL) == INFER_OK && said.warnings == 0);
    CHECK(infer_session_destroy(s) == INFER_OK);
    sp.context++;
    CHECK(infer_session_create(&s, m, &sp, NULL) == INFER_OK && said.warnings == 1);
    CHECK_HAS(said.text, "trained for 2048");
    CHECK(infer_session_fork(&t, s, NULL) == INFER_OK && said.warnings == 1); /* said once */
    CHECK(infer_session_destroy(s) == INFER_OK && infer_session_destroy(t) == INFER_OK);
    cp.cells = 5000; /* of several sessions: no reason to worry */
    CHECK(infer_context_create(&c, m, &cp, NULL) == INFER_OK && said.warnings == 1);
    CHECK(infer_session_create_in(&s, c, &sp, NULL) == INFER_OK && said.warnings == 2);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_context_destroy(c) == INFER_OK);
    m->hp.rope_scaling = INFER__SCALING_YARN; /* what scaling reaches is no surprise */
    m->hp.rope_ctx = 2048;
    m->hp.rope_factor = 4;
    sp.context = 8192;
    CHECK(infer_session_create(&s, m, &sp, NULL) == INFER_OK && said.warnings == 2);
    CHECK(infer_session_destroy(s) == INFER_OK);
    sp.context = 8193;
    CHECK(infer_session_create(&s, m, &sp, NULL) == INFER_OK && said.warnings == 3);
    CHECK_HAS(said.text, "trained for 8192");
    CHECK(infer_session_destroy(s) == INFER_OK);
    m->hp.rope_factor = 5.6e21f; /* times the context it is no 64-bit integer */
    CHECK(infer_session_create(&s, m, &sp, NULL) == INFER_OK && said.warnings == 3);
    CHECK(infer_session_destroy(s) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_host_context_beyond_memory(void) {
    infer_model_params p;
    infer_context_params cp;
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_device_info device;
    infer_error err;
    infer__plan plan;
    host_said said;
    uint64_t total, available, swap;
    infer__machine_memory(&total, &available, &swap);
    memset(&p, 0, sizeof p);
    memset(&cp, 0, sizeof cp);
    memset(&said, 0, sizeof said);
    memset(&plan, 0, sizeof plan);
    p.backend = INFER_CPU;
    p.log = host_log;
    p.log_user = &said;
    CHECK(infer_model_open(&m, check_data(HOST_STORY), &p, NULL) == INFER_OK);
    CHECK(infer_device_get(0, &device) == INFER_OK && device.total == total && (device.free > 0) == (available > 0));
    cp.cells = 1 << 30; /* 1.2 TB */
    cp.kv_type = INFER_KV_F32;
    CHECK(infer_context_create(&c, m, &cp, &err) == INFER_ERR_MEMORY && c == NULL);
    CHECK_HAS(err.message, "1073741824 cells");
    if (total > 0 && total + swap < (uint64_t)1 << 40) CHECK_HAS(err.message, "of the host's, which has");
    if (available > 0) {
        plan.cache_bytes[INFER__ON_CPU] = available / 2;
        CHECK(infer__plan_fits(&plan, m, &err) == INFER_OK && said.warnings == 0);
        plan.cache_bytes[INFER__ON_CPU] = total + swap;
        CHECK(infer__plan_fits(&plan, m, &err) == INFER_OK && said.warnings == 1);
        CHECK_HAS(said.text, "are free");
        plan.cache_bytes[INFER__ON_CPU] = total + swap + ((uint64_t)1 << 34);
        CHECK(infer__plan_fits(&plan, m, &err) == INFER_ERR_MEMORY && said.warnings == 1);
        m->params.allocator.alloc = check_alloc; /* which may get it anywhere */
        CHECK(infer__plan_fits(&plan, m, &err) == INFER_OK && said.warnings == 2);
        m->params.allocator.alloc = NULL;
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

#if defined(HOST_POSIX)

static const char *host_temp(const char *name) {
    static char path[4][300];
    static int at;
    const char *dir = getenv("TMPDIR");
    at = (at + 1) & 3;
    snprintf(path[at], sizeof path[at], "%s/infer-host-%ld-%s", dir && *dir ? dir : "/tmp", (long)getpid(), name);
    return path[at];
}

static int host_put(const char *path, const void *data, size_t n) { /* in place: the file stays the same one */
    FILE *f = fopen(path, "r+b");
    int ok;
    if (!f) f = fopen(path, "wb");
    if (!f) return 0;
    ok = fwrite(data, 1, n, f) == n;
    return fclose(f) == 0 && ok;
}

#if defined(__linux__)
static void test_host_control_group(void) {
    const char *dir = host_temp("group");
    char path[400];
    uint64_t total = 0, available = 0;
    static const struct { const char *name, *text; } FILES[] = {
        { "memory.max", "1000000\n" }, { "memory.current", "700000\n" },
        { "memory.stat", "anon 5\ninactive_anon 7\nactive_file 50000\ninactive_file 150000\n" } };
    size_t i;
    CHECK(mkdir(dir, 0700) == 0);
    infer__group_memory(dir, "memory.max", "memory.current", "", &total, &available);
    CHECK(total == 0 && available == 0); /* no files, no limit */
    for (i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, FILES[i].name);
        CHECK(host_put(path, FILES[i].text, strlen(FILES[i].text)));
    }
    infer__group_memory(dir, "memory.max", "memory.current", "", &total, &available);
    CHECK(total == 1000000 && available == 500000); /* its page cache can be taken back */
    total = 2000;
    available = 1000;
    infer__group_memory(dir, "memory.max", "memory.current", "", &total, &available);
    CHECK(total == 2000 && available == 1000);
    snprintf(path, sizeof path, "%s/memory.max", dir);
    CHECK(host_put(path, "max\n    ", 8));
    total = available = 0;
    infer__group_memory(dir, "memory.max", "memory.current", "", &total, &available);
    CHECK(total == 0 && available == 0);
    for (i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, FILES[i].name);
        remove(path);
    }
    CHECK(rmdir(dir) == 0);
}
#endif

/* ---- files that others change ---------------------------------------------------------------------------------------- */

#if defined(INFER__MMAP)

static const char *host_truncated;
static int host_truncate(void *user, float done) {
    if (done > 0) CHECK(truncate(host_truncated, *(const int *)user) == 0);
    return 0;
}

/* host: files. Mapped: one that has lost its end is an error, one that took its place means nothing. */
static void test_host_file_is_shortened(void) {
    static const int CUTS[] = { 0, 10, 100000, 1000000 };
    const char *path = host_temp("model.gguf"), *next = host_temp("next.gguf");
    float want[HOST_VOCAB], row[64];
    char text[100];
    infer_generate_params gp;
    infer_model_params p;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error err;
    infer_meta meta;
    infer_token ids[20];
    size_t n = 0, n_ids = 0, len, i;
    char *data = check_read(check_data(HOST_STORY), &n);
    memset(&gp, 0, sizeof gp);
    memset(&p, 0, sizeof p);
    gp.max_tokens = 2;
    cache_ids(host_ids, HOST_IDS, 77, HOST_VOCAB);
    if (!data || !host_put(path, data, n) || chmod(path, 0644) != 0) { CHECK(0); free(data); return; }
    p.backend = INFER_CPU; /* a device has copies */
    CHECK(infer_model_open(&m, path, &p, &err) == INFER_OK);
    CHECK(infer_session_create(&s, m, NULL, &err) == INFER_OK);
    if (!s || INFER__BIG_ENDIAN) { /* there weights are copies */
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
        remove(path);
        free(data);
        if (INFER__BIG_ENDIAN) SKIP("cpu: big-endian: weights are copied");
        return;
    }
    CHECK(m->gguf.sources[0].file.map != NULL);
    CHECK(infer_session_eval(s, host_ids, 8) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    for (i = 0; i < sizeof CUTS / sizeof *CUTS; i++) {
        CHECK(infer_session_rewind(s, 4) == INFER_OK);
        CHECK(truncate(path, CUTS[i]) == 0);
        CHECK(infer_session_eval(s, host_ids + 4, 4) == INFER_ERR_IO && infer_session_position(s) == 4);
        CHECK_HAS(infer_session_error(s)->message, "shortened");
        CHECK(infer_generate(s, NULL, "Once", &gp, NULL) == INFER_ERR_IO && infer_session_position(s) == 4);
        CHECK(infer_tensor_read(m, "output_norm.weight", 0, 1, row, &err) == INFER_ERR_IO);
        /* what is no weight is in memory */
        CHECK(infer_tokenize(m, "Once upon a time", 16, 0, ids, 20, &n_ids, &err) == INFER_OK && n_ids > 0);
        CHECK(infer_detokenize(m, ids, n_ids, 0, text, sizeof text, &len, &err) == INFER_OK && len > 0);
        CHECK(infer_meta_value(m, "general.architecture", &meta) == INFER_OK && meta.n == 5 && memcmp(meta.s, "llama", 5) == 0);
        CHECK(infer_meta_element(m, "tokenizer.ggml.tokens", 300, &meta) == INFER_OK && meta.n > 0);
        CHECK(host_put(path, data, n)); /* restored: everything goes on */
        CHECK(infer_session_eval(s, host_ids + 4, 4) == INFER_OK);
        CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
    }
    /* another file in its place: ours is still there */
    CHECK(host_put(next, "x", 1) && rename(next, path) == 0);
    CHECK(infer_session_rewind(s, 4) == INFER_OK && infer_session_eval(s, host_ids + 4, 4) == INFER_OK);
    CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
    CHECK(infer_session_destroy(s) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
    /* while it is being opened */
    for (i = 0; i < sizeof CUTS / sizeof *CUTS; i++) {
        int cut = CUTS[i];
        CHECK(host_put(path, data, n));
        host_truncated = path;
        p.progress = host_truncate;
        p.progress_user = &cut;
        CHECK(infer_model_open(&m, path, &p, &err) == INFER_ERR_IO && m == NULL);
        CHECK_HAS(err.message, "shortened");
    }
    remove(path);
    free(data);
}

/* host: files. Read into memory: what becomes of the file afterwards changes nothing. */
static void test_host_file_changes_in_place(void) {
    const char *path = host_temp("changed.gguf");
    float want[HOST_VOCAB];
    infer_model_params p;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error err;
    size_t n = 0;
    char *data = check_read(check_data(HOST_STORY), &n);
    cache_ids(host_ids, HOST_IDS, 77, HOST_VOCAB);
    memset(&p, 0, sizeof p);
    p.backend = INFER_CPU;
    p.no_mmap = 1;
    if (!data || !host_put(path, data, n)) { CHECK(0); free(data); return; }
    CHECK(infer_model_open(&m, path, &p, &err) == INFER_OK && infer_session_create(&s, m, NULL, &err) == INFER_OK);
    CHECK(infer_session_eval(s, host_ids, 8) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    memset(data, 77, n);
    CHECK(host_put(path, data, n) && infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, host_ids, 8) == INFER_OK);
    CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
    CHECK(truncate(path, 10) == 0 && infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, host_ids, 8) == INFER_OK);
    CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
    remove(path);
    free(data);
}

/* host: files. What is mapped. */
static void test_host_file_of_everybody(void) {
    const char *path = host_temp("open.gguf");
    infer_model_params p;
    infer_model *m = NULL;
    host_said said;
    size_t n = 0;
    char *data = check_read(check_data(HOST_STORY), &n);
    static const struct { int mode, no_mmap, mapped, warnings; } CASES[] = {
        { 0644, 0, 1, 0 }, { 0664, 0, 1, 0 }, { 0666, 0, 0, 1 }, { 0646, 0, 0, 1 },
        { 0666, 1, 0, 0 }, { 0644, 1, 0, 0 }, { 0666, -1, 1, 0 }, { 0644, -1, 1, 0 } };
    size_t i;
    if (!data || !host_put(path, data, n)) { CHECK(0); free(data); return; }
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        memset(&p, 0, sizeof p);
        memset(&said, 0, sizeof said);
        p.backend = INFER_CPU;
        p.no_mmap = CASES[i].no_mmap;
        p.log = host_log;
        p.log_user = &said;
        CHECK(chmod(path, (mode_t)CASES[i].mode) == 0);
        CHECK(infer_model_open(&m, path, &p, NULL) == INFER_OK);
        CHECK((m->gguf.sources[0].file.map != NULL) == CASES[i].mapped && said.warnings == CASES[i].warnings);
        if (said.warnings) CHECK_HAS(said.text, "not mapped");
        CHECK(infer_model_close(m) == INFER_OK);
    }
    remove(path);
    free(data);
}
#endif
#endif

/* ---- signals and threads --------------------------------------------------------------------------------------------- */

#if defined(HOST_THREADS)

static pthread_t host_main_thread;
static int host_got, host_stray; /* atomic */
static void host_on_signal(int n) {
    (void)n;
    __atomic_add_fetch(pthread_equal(pthread_self(), host_main_thread) ? &host_got : &host_stray, 1, __ATOMIC_SEQ_CST);
}
static int host_count(const int *n) { return __atomic_load_n(n, __ATOMIC_SEQ_CST); }

static int host_same_mask(const sigset_t *a, const sigset_t *b) {
    int i;
    for (i = 1; i < 32; i++)
        if (sigismember(a, i) != sigismember(b, i)) return 0;
    return 1;
}

/* host: signals. With the signal blocked in all threads of the host it waits; a thread of the library would take it. */
static void test_host_signals_are_the_hosts(void) {
    static const int SIGNALS[] = { SIGUSR1, SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGCHLD, SIGPIPE, SIGWINCH };
    infer_model *m;
    infer_session *s;
    struct sigaction on, before[sizeof SIGNALS / sizeof *SIGNALS];
    sigset_t blocked, old, made, pending;
    infer_token ids[HOST_IDS];
    size_t i;
    m = cache_model("llama-dense");
    cache_ids(ids, HOST_IDS, 3, 128);
    host_main_thread = pthread_self();
    memset(&on, 0, sizeof on);
    on.sa_handler = host_on_signal;
    sigemptyset(&on.sa_mask);
    sigemptyset(&blocked);
    for (i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        sigaddset(&blocked, SIGNALS[i]);
        CHECK(sigaction(SIGNALS[i], &on, &before[i]) == 0);
    }
    host_got = host_stray = 0;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &old) == 0);
    s = cache_session(m, 4, 8, 64, 0, 0); /* workers start while nothing is blocked */
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &made) == 0 && host_same_mask(&old, &made));
    CHECK(infer_session_eval(s, ids, HOST_IDS) == INFER_OK);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
    for (i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        CHECK(kill(getpid(), SIGNALS[i]) == 0);
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, HOST_IDS) == INFER_OK);
        CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGNALS[i]));
    }
    CHECK(host_count(&host_got) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    for (i = 0; i < 1000 && host_count(&host_got) < (int)(sizeof SIGNALS / sizeof *SIGNALS); i++) usleep(1000);
    CHECK(host_count(&host_got) == (int)(sizeof SIGNALS / sizeof *SIGNALS) && host_count(&host_stray) == 0);
    for (i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) sigaction(SIGNALS[i], &before[i], NULL);
    CHECK(infer_session_destroy(s) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

#  if defined(__linux__) && !defined(HOST_TSAN)
/* Threads of this process, but the caller, and how many of them have another mask than these signals left out. */
static int host_masks(unsigned long long faults, unsigned long long others, int *bad) {
    unsigned long long blocked;
    char path[300], line[256];
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int threads = 0;
    FILE *f;
    *bad = 0;
    while (tasks && (task = readdir(tasks)) != NULL) {
        if (strtol(task->d_name, NULL, 10) < 1 || strtol(task->d_name, NULL, 10) == (long)getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        if ((f = fopen(path, "r")) == NULL) continue;
        while (fgets(line, sizeof line, f))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) {
                *bad += (blocked & faults) != 0 || (blocked & others) != others;
                threads++;
            }
        fclose(f);
    }
    if (tasks) closedir(tasks);
    return threads;
}

/* host: signals. The library's threads, workers and a queue's, leave the signals of faults to the host's handlers, and block all others. */
static void test_host_fault_signals(void) {
    static const int FAULTS[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    static const queue_way way = { 2, 0, 0, 0, 0, 1, 0 };
    infer_model *m = cache_model("llama-dense");
    infer_session *s = cache_session(m, 4, 8, 64, 0, 0);
    infer_queue *q = queue_open(m, &way);
    unsigned long long faults = 0, others = 0;
    infer_token id = 1;
    int threads = 0, bad = 1, i;
    for (i = 0; i < (int)(sizeof FAULTS / sizeof *FAULTS); i++) faults |= 1ull << (FAULTS[i] - 1);
    for (i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP && !(faults >> (i - 1) & 1)) others |= 1ull << (i - 1);
    CHECK(infer_session_eval(s, &id, 1) == INFER_OK);
    for (i = 0; i < 2000 && bad; i++) { /* the C library blocks all of them until a thread has begun */
        usleep(1000);
        threads = host_masks(faults, others, &bad);
    }
    CHECK(threads >= 4 && bad == 0); /* 3 workers, a queue's */
    CHECK(infer_session_destroy(s) == INFER_OK && infer_queue_destroy(q) == INFER_OK && infer_model_close(m) == INFER_OK);
}
#  endif

/* host: threads. While nothing runs they take no time of the processor. */
static void test_host_threads_sleep(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session *s = cache_session(m, 8, 8, 64, 0, 0);
    infer_token id = 1;
    double before;
    CHECK(infer_session_eval(s, &id, 1) == INFER_OK);
    usleep(200000); /* they wait awake for a moment */
    before = check_seconds();
    usleep(500000);
    CHECK(check_seconds() - before < 0.05);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
}

static int host_stop;
static void *host_sender(void *arg) {
    (void)arg;
    while (!__atomic_load_n(&host_stop, __ATOMIC_SEQ_CST)) {
        kill(getpid(), SIGINT);
        usleep(300);
    }
    return NULL;
}

/* host: signals. Calls that are interrupted go on, to the same bits. */
static void test_host_signal_storm(void) {
    static const int SIGNALS[] = { SIGINT, SIGALRM, SIGPROF };
    infer_model *m = cache_model("llama-mixtral-moe");
    infer_session *s;
    struct sigaction on, before[3];
    struct itimerval fast, off;
    sigset_t blocked, old;
    infer_model_params p;
    infer_token ids[HOST_IDS];
    float want[128];
    pthread_t sender;
    int i;
    memset(&p, 0, sizeof p);
    cache_ids(ids, HOST_IDS, 3, 128);
    memset(&on, 0, sizeof on);
    memset(&off, 0, sizeof off);
    memset(&fast, 0, sizeof fast);
    fast.it_interval.tv_usec = fast.it_value.tv_usec = 500;
    on.sa_handler = host_on_signal; /* no SA_RESTART: calls are interrupted */
    sigemptyset(&on.sa_mask);
    s = cache_session(m, 4, 8, 64, 0, 0);
    CHECK(infer_session_eval(s, ids, HOST_IDS) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    CHECK(infer_session_destroy(s) == INFER_OK);
    host_main_thread = pthread_self();
    host_got = host_stray = 0;
    host_stop = 0;
    for (i = 0; i < 3; i++) CHECK(sigaction(SIGNALS[i], &on, &before[i]) == 0);
    sigemptyset(&blocked);
    for (i = 0; i < 3; i++) sigaddset(&blocked, SIGNALS[i]);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, &old) == 0); /* for the sender, so that this thread gets them all */
    CHECK(pthread_create(&sender, NULL, host_sender, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &fast, NULL) == 0 && setitimer(ITIMER_PROF, &fast, NULL) == 0);
    for (i = 0; i < 40 && !check_bad; i++) { /* workers start and end under it too */
        infer_model *again = m;
        p.no_mmap = i % 16 == 0; /* read and mapped, while signals interrupt */
        if (i % 8 == 0) CHECK(infer_model_open(&again, check_data("archs/llama-mixtral-moe.gguf"), &p, NULL) == INFER_OK);
        s = cache_session(again, 4, 8, 64, 0, 0);
        CHECK(infer_session_eval(s, ids, HOST_IDS) == INFER_OK);
        CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
        CHECK(infer_session_destroy(s) == INFER_OK);
        if (again != m) CHECK(infer_model_close(again) == INFER_OK);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    setitimer(ITIMER_PROF, &off, NULL);
    __atomic_store_n(&host_stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(sender, NULL);
    CHECK(host_count(&host_got) > 0);
    CHECK(host_count(&host_stray) == 0);
    for (i = 0; i < 3; i++) sigaction(SIGNALS[i], &before[i], NULL);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* host: cancel. A handler cancels whatever runs: that call ends, the session stands where it should, and the next one is not ended by it. */
static infer_session *host_to_cancel;
static void host_cancel_signal(int n) {
    (void)n;
    infer_session_cancel(host_to_cancel);
}
static void test_host_cancel_by_a_signal(void) {
    struct sigaction on, before;
    struct itimerval soon, off;
    infer_generate_params p;
    infer_generate_info info;
    infer_model *m = NULL;
    infer_session *s;
    float want[HOST_VOCAB];
    int i, cancelled = 0;
    cache_ids(host_ids, HOST_IDS, 77, HOST_VOCAB);
    memset(&on, 0, sizeof on);
    memset(&off, 0, sizeof off);
    memset(&soon, 0, sizeof soon);
    memset(&p, 0, sizeof p);
    on.sa_handler = host_cancel_signal;
    sigemptyset(&on.sa_mask);
    p.ignore_end = 1;
    if (infer_model_open(&m, check_data(HOST_STORY), NULL, NULL)) { CHECK(!"the model"); return; }
    host_to_cancel = s = cache_session(m, 2, 64, 512, 0, 0);
    CHECK(infer_session_eval(s, host_ids, HOST_IDS) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    CHECK(sigaction(SIGALRM, &on, &before) == 0);
    for (i = 0; i < 200 && cancelled < 5 && !check_bad; i++) {
        infer_result r;
        soon.it_value.tv_usec = 1000 + 500 * (i % 7); /* an eval, a choice, a callback: wherever it is then */
        CHECK(infer_session_rewind(s, 0) == INFER_OK && setitimer(ITIMER_REAL, &soon, NULL) == 0);
        r = infer_generate(s, NULL, "Once upon a time", &p, &info);
        CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
        CHECK(r == INFER_OK || (r == INFER_CANCELLED && info.stop_reason == INFER_STOP_CANCELLED));
        cancelled += r == INFER_CANCELLED;
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, host_ids, HOST_IDS) == INFER_OK);
        CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
    }
    CHECK(cancelled == 5);
    sigaction(SIGALRM, &before, NULL);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* host: one at a time. Two threads misuse one session, its context and its sampler: a call that comes second is refused, none is damaged. */
typedef struct host_misuse { host_world *w; uint32_t seed; int ran, refused; } host_misuse;
static void *host_misuse_thread(void *arg) {
    host_misuse *u = (host_misuse *)arg;
    host_world *w = u->w;
    infer_generate_params p;
    int i;
    memset(&p, 0, sizeof p);
    p.max_tokens = 4;
    for (i = 0; i < 300; i++) {
        infer_session *t = NULL;
        infer_token token;
        state_bytes b;
        int r;
        memset(&b, 0, sizeof b);
        u->seed = u->seed * 1664525u + 1013904223u;
        switch (u->seed >> 28) {
        case 0: r = infer_generate(w->s, w->sampler, "Once", &p, NULL); break;
        case 1: r = infer_session_rewind(w->s, 0); break;
        case 2: r = infer_session_fork(&t, w->s, NULL); break;
        case 3: r = infer_session_save(w->s, state_write, &b); break;
        case 4: r = infer_session_sync(w->s, host_ids, 12, NULL); break;
        case 5: r = infer_session_eval(w->other, host_ids, 3); break;
        case 6: r = infer_session_rewind(w->other, 0); break;
        case 7: r = infer_sampler_reset(w->sampler); break;
        case 8: r = infer_session_sample(w->s, w->sampler, -1, &token); break;
        case 9: r = infer_grammar_check(w->g, "abc abc", 7, NULL, NULL, NULL); break;
        case 10: r = infer_session_create_in(&t, w->c, NULL, NULL); break;
        case 11: r = host_steps(w); break;
        case 12: infer_session_cancel(w->s); r = INFER_OK; break;
        case 13: r = infer_context_set_adapters(w->c, NULL, 0, NULL); break;
        default: r = infer_session_eval(w->s, host_ids, 2); break;
        }
        if (r == INFER_OK) u->ran++;
        else if (r == INFER_ERR_STATE) u->refused++;
        else CHECK(r == INFER_CANCELLED || r == INFER_CONTEXT_FULL);
        CHECK(infer_session_destroy(t) == INFER_OK); /* though its context may be in use */
        free(b.p);
    }
    return NULL;
}
static void test_host_two_threads_misuse_a_session(void) {
    host_world w;
    host_misuse u[2];
    pthread_t thread[2];
    float a[HOST_VOCAB + 1], b[HOST_VOCAB + 1];
    int i, round;
    host_open(&w, 0, 0, 0);
    host_now = NULL;
    host_scene(&w, 1, 0, a);
    w.left = 0;
    memset(u, 0, sizeof u);
    for (i = 0; i < 2; i++) u[i].w = &w;
    for (round = 0; round < 20 && u[0].refused + u[1].refused == 0; round++) { /* one core: they seldom meet */
        for (i = 0; i < 2; i++) {
            u[i].seed = (uint32_t)(i * 77 + round);
            CHECK(pthread_create(&thread[i], NULL, host_misuse_thread, &u[i]) == 0);
        }
        for (i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    }
    CHECK(u[0].ran > 0 && u[1].ran > 0);
    CHECK(u[0].refused + u[1].refused > 0);
    CHECK(infer_sampler_reset(w.sampler) == INFER_OK);
    host_scene(&w, 1, 0, b); /* nothing was damaged */
    CHECK(memcmp(a, b, sizeof a) == 0);
    host_shut(&w);
}

/* ---- fork() ------------------------------------------------------------------------------------------------------------ */

#if !defined(HOST_TSAN)
/* In the child: a context with workers, and a queue, say that they cannot be used, and can be given back; a new one works. */
static int host_child(infer_model *m, infer_session *s, infer_queue *q, const infer_token *ids, const float *want) {
    infer_request_params of;
    infer_request *r = NULL;
    infer_session *t = NULL;
    infer_session_params p;
    memset(&p, 0, sizeof p);
    p.context = 64;
    p.own.threads = 3;
    if (infer_session_eval(s, ids, 1) != INFER_ERR_STATE) return 1;
    if (!strstr(infer_session_error(s)->message, "fork")) return 2;
    if (infer_session_destroy(s) != INFER_OK) return 3;
    if (infer_session_create(&t, m, &p, NULL) != INFER_OK) return 4;
    if (infer_session_eval(t, ids, HOST_IDS) != INFER_OK) return 5;
    if (memcmp(infer_session_logits(t, -1), want, 128 * sizeof *want) != 0) return 6;
    if (infer_session_destroy(t) != INFER_OK) return 7;
    memset(&of, 0, sizeof of); /* a queue of the parent, with a thread that is not here */
    of.tokens = ids;
    of.n_tokens = 3;
    if (infer_queue_submit(q, &of, &r, NULL) != INFER_ERR_STATE || infer_queue_step(q, 0) != INFER_ERR_STATE) return 8;
    if (infer_queue_destroy(q) != INFER_OK || infer_model_close(m) != INFER_OK) return 9;
    return 0;
}
/* host: fork. On the CPU; on a device: test_gpu_after_fork. */
static void test_host_fork(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session *s = m ? cache_session(m, 3, 8, 64, 0, 0) : NULL;
    static const queue_way way = { 2, 0, 0, 0, 0, 1, 0 };
    infer_queue *q = m ? queue_open(m, &way) : NULL;
    infer_token ids[HOST_IDS];
    float want[128];
    int status = -1, i;
    pid_t child;
    cache_ids(ids, HOST_IDS, 9, 128);
    CHECK(infer_session_eval(s, ids, HOST_IDS) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    for (i = 0; i < 3; i++) {
        child = fork();
        if (child == 0) {
            alarm(60); /* a hang is a failure, not a wait for ever */
            _exit(host_child(m, s, q, ids, want));
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(infer_session_rewind(s, 10) == INFER_OK && infer_session_eval(s, ids + 10, HOST_IDS - 10) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), want, sizeof want) == 0); /* the parent does not notice */
    }
    CHECK(infer_session_destroy(s) == INFER_OK && infer_queue_destroy(q) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}
#endif
#endif

/* ---- read and locked beforehand ---------------------------------------------------------------------------------------- */

#if defined(HOST_POSIX) && defined(INFER__MMAP)
typedef struct host_loads { int n, stop; float last; } host_loads;
static int host_loads_fn(void *user, float done) {
    host_loads *p = (host_loads *)user;
    CHECK(done >= p->last && done <= 1);
    p->last = done;
    return ++p->n == p->stop;
}

/* Kilobytes of a field of the mapping of a file, as Linux tells them; -1 = it does not. */
static long host_mapped(const char *name, const char *field) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    long kb = -1, all = -1;
    int inside = 0;
    while (f && fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, '/')) inside = strstr(line, name) != NULL;
        else if (inside && strncmp(line, field, strlen(field)) == 0 && sscanf(line + strlen(field), ": %ld", &kb) == 1) all = (all < 0 ? 0 : all) + kb;
    }
    if (f) fclose(f);
    return all;
}

static void test_host_preload(void) {
    const char *name = "stories260K.F32.gguf";
    infer_model *m = NULL;
    infer_model_params p;
    infer_error e;
    host_loads seen;
    char *data;
    size_t n = 0;
    int i, plain = 0, all = 0;
    memset(&p, 0, sizeof p);
    p.backend = INFER_CPU;
    p.progress = host_loads_fn;
    p.progress_user = &seen;
    for (i = 0; i < 3; i++) {
        long rss, locked;
        memset(&seen, 0, sizeof seen);
        p.preload = i;
        if (infer_model_open(&m, check_data(HOST_STORY), &p, &e)) { /* without the right to lock */
            CHECK(i == 2 && e.code == INFER_ERR_MEMORY);
            CHECK_HAS(e.message, "lock");
            continue;
        }
        CHECK(seen.last == 1);
        if (i == 0) plain = seen.n;
        else CHECK(seen.n >= plain + m->hp.n_layer);
        all = seen.n;
        rss = host_mapped(name, "Rss");
        locked = host_mapped(name, "Locked");
        (void)locked;
        if (rss >= 0 && i > 0 && !INFER__BIG_ENDIAN) CHECK(rss > 1000); /* of 1,162 */
#  if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these make mlock do nothing */
        /* all of 1,162, divided by the processes that map the file at the time */
        if (locked >= 0 && !getenv("CHECK_EMULATED")) CHECK(i < 2 ? locked == 0 : locked > 100);
#  endif
        CHECK(infer_model_close(m) == INFER_OK);
    }
    p.preload = 1;
    for (i = 1; i <= all; i++) {
        memset(&seen, 0, sizeof seen);
        seen.stop = i;
        CHECK(infer_model_open(&m, check_data(HOST_STORY), &p, &e) == INFER_CANCELLED && !m);
        CHECK(seen.n == i);
    }
    p.preload = 3;
    CHECK(infer_model_open(&m, check_data(HOST_STORY), &p, &e) == INFER_ERR_ARGUMENT && !m);
    p.preload = 2;
    p.progress = NULL;
    data = check_read(check_data(HOST_STORY), &n);
    CHECK(infer_model_open_memory(&m, data, n, &p, &e) == INFER_ERR_UNSUPPORTED && !m);
    CHECK_HAS(e.message, "not mapped");
    p.no_mmap = 1;
    CHECK(infer_model_open(&m, check_data(HOST_STORY), &p, &e) == INFER_ERR_UNSUPPORTED && !m);
    free(data);
}
#endif

/* ---- the processor's state ---------------------------------------------------------------------------------------------- */

#if defined(__SSE__) && (defined(__GNUC__) || defined(__clang__))
/* host: floating point. Games and audio flush denormals to zero: the same bits, in the caller's thread and in those that it starts. */
static void test_host_denormals_are_flushed(void) {
    static const char *const files[] = { "llama-dense", "gemma3-real-dense", "llama-mixtral-moe", "mamba2-groups-dense", "rwkv7-small-dense" };
    const unsigned before = __builtin_ia32_stmxcsr();
    infer_token ids[HOST_IDS];
    float want[128];
    size_t f, size;
    int way;
    cache_ids(ids, HOST_IDS, 3, 30);
    for (f = 0; f < sizeof files / sizeof *files; f++)
        for (way = 0; way < 3; way++) { /* not; all the time; from the context on */
            infer_model *m;
            infer_session *s;
            if (way == 1) __builtin_ia32_ldmxcsr(before | 0x8040);
            if ((m = cache_model(files[f])) == NULL) break;
            s = cache_session(m, 3, 16, 64, 0, 0);
            if (way == 2) __builtin_ia32_ldmxcsr(before | 0x8040);
            CHECK(infer_session_eval(s, ids, HOST_IDS) == INFER_OK);
            size = sizeof(float) * (size_t)INFER__MIN(m->hp.n_vocab, 128);
            if (way == 0) memcpy(want, infer_session_logits(s, -1), size);
            else CHECK(memcmp(want, infer_session_logits(s, -1), size) == 0);
            CHECK(infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
            __builtin_ia32_ldmxcsr(before);
        }
}
#  define HOST_SSE 1
#endif

/* ---- where threads run ------------------------------------------------------------------------------------------------- */

#if defined(HOST_THREADS)
/* Threads of this process, but the caller, that stay on one processor / that give way. */
static void host_tasks(int *placed, int *low) {
#  if defined(__linux__)
    char path[300], text[512], *end;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    FILE *f;
    int i;
    *placed = *low = 0;
    while (tasks && (task = readdir(tasks)) != NULL) {
        if (strtol(task->d_name, NULL, 10) < 1 || strtol(task->d_name, NULL, 10) == (long)getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        if ((f = fopen(path, "r")) == NULL) continue;
        while (fgets(text, sizeof text, f))
            if (strncmp(text, "Cpus_allowed_list:", 18) == 0) *placed += strtol(text + 18, &end, 10) >= 0 && *end == '\n';
        fclose(f);
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        if ((f = fopen(path, "r")) == NULL) continue;
        if (fgets(text, sizeof text, f) && (end = strrchr(text, ')')) != NULL) {
            for (i = 0; i < 17 && end; i++) end = strchr(end + 1, ' '); /* the 19th field */
            *low += end && strtol(end, NULL, 10) == 10;
        }
        fclose(f);
    }
    if (tasks) closedir(tasks);
#  else
    *placed = *low = -1;
#  endif
}

static void test_host_placing(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session_params p;
    infer_queue_params qp;
    infer_session *s = NULL;
    infer_queue *q = NULL;
    infer_error e;
    infer_token ids[4] = { 1, 2, 3, 4 };
    int32_t first = 0, wrong = 1 << 15;
    int placed, low, before, i, low_before;
    memset(&p, 0, sizeof p);
    memset(&qp, 0, sizeof qp);
    while (first < 4096 && infer__processor_there(first) == 0) first++;
    p.context = 64;
    p.own.threads = 4;
    p.own.processors = &first;
    p.own.n_processors = 1;
    p.own.low_priority = 1;
    if (infer__processor_there(first) < 0) {
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_ERR_UNSUPPORTED && !s);
        CHECK(infer_model_close(m) == INFER_OK);
        return;
    }
    host_tasks(&before, &low_before);
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK && infer_session_eval(s, ids, 4) == INFER_OK);
    for (i = 0; i < 200; i++) { /* they place themselves */
        host_tasks(&placed, &low);
        if (placed < 0 || (placed >= before + 3 && low >= low_before + 3)) break;
        infer__yield();
    }
    if (placed >= 0 && !getenv("CHECK_EMULATED")) CHECK(placed == before + 3 && low == low_before + 3);
    infer_session_destroy(s);
    qp.context = p.own;
    qp.context.threads = 1;
    qp.positions = 64;
    qp.thread = 1;
    CHECK(infer_queue_create(&q, m, &qp, &e) == INFER_OK);
    for (i = 0; i < 200; i++) {
        host_tasks(&placed, &low);
        if (placed < 0 || (placed > before && low > low_before)) break;
        infer__yield();
    }
    if (placed >= 0 && !getenv("CHECK_EMULATED")) CHECK(placed == before + 1 && low == low_before + 1);
    CHECK(infer_queue_destroy(q) == INFER_OK);
    p.own.processors = &wrong;
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_ERR_ARGUMENT && !s);
    CHECK_HAS(e.message, "processors[0]");
    p.own.processors = NULL;
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_ERR_ARGUMENT && !s);
    CHECK(infer_model_close(m) == INFER_OK);
}
#endif

static void suite_host_system(void) {
#if defined(HOST_SSE)
    RUN(test_host_denormals_are_flushed);
#endif
    RUN(test_host_context_beyond_training);
    RUN(test_host_context_beyond_memory);
#if defined(HOST_POSIX)
#  if defined(__linux__)
    RUN(test_host_control_group);
#  endif
#  if defined(INFER__MMAP)
    RUN(test_host_file_is_shortened);
    RUN(test_host_file_changes_in_place);
    RUN(test_host_file_of_everybody);
    RUN(test_host_preload);
#  endif
#endif
#if defined(HOST_THREADS)
    RUN(test_host_placing);
    RUN(test_host_threads_sleep);
    RUN(test_host_signals_are_the_hosts);
#  if defined(__linux__) && !defined(HOST_TSAN)
    if (!getenv("CHECK_EMULATED")) RUN(test_host_fault_signals); /* qemu-user's threads have masks of their own */
#  endif
    RUN(test_host_signal_storm);
    RUN(test_host_cancel_by_a_signal);
    RUN(test_host_two_threads_misuse_a_session);
#  if !defined(HOST_TSAN)
    if (!getenv("CHECK_EMULATED")) RUN(test_host_fork); /* qemu-user itself aborts in a child of a process with threads */
#  endif
#endif
}
