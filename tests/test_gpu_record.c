/* test_gpu_record.c: passes that a driver keeps and does again. The driver under test stands behind one of our own that
 * can record, whatever its API can: launches and copies are noted, and done at each replay. Every call of it can be made
 * to fail. Then: the time that the device takes. Part of test_gpu_models.c, whose helpers it uses. */

enum { REC_OPS = 4096, REC_ARGS = 512, REC_BUFS = 16 };
typedef struct rec_op {
    void *kernel; /* NULL: a copy */
    uint32_t groups[3], args_size;
    int32_t group, n_bufs;
    uint64_t bufs[REC_BUFS];
    char args[REC_ARGS];
} rec_op;
typedef struct rec_list { int32_t n; rec_op ops[REC_OPS]; } rec_list;

static struct {
    const infer__driver *base;
    infer__driver driver;
    rec_list *now; /* being recorded */
    int records, ends, replays, open;
    int fail_record, fail_end, fail_replay, fail_launch; /* 1 = the next call; n = the n-th from now (launch) */
} rec;

static infer_result rec_fails(int *when, infer_error *err, const char *what) {
    if (*when <= 0 || --*when > 0) return INFER_OK;
    return infer__error(err, INFER_ERR_DEVICE, "%s was made to fail", what);
}

static infer_result rec_launch(void *queue, void *kernel, const uint32_t *groups, int32_t group, const uint64_t *bufs,
                               int32_t n_bufs, const void *args, uint32_t args_size, infer_error *err) {
    rec_op *op;
    infer_result r = rec_fails(&rec.fail_launch, err, "launch");
    if (r) return r;
    if (!rec.now) return rec.base->launch(queue, kernel, groups, group, bufs, n_bufs, args, args_size, err);
    CHECK(rec.now->n < REC_OPS && n_bufs <= REC_BUFS && args_size <= REC_ARGS);
    op = &rec.now->ops[rec.now->n++];
    op->kernel = kernel;
    memcpy(op->groups, groups, sizeof op->groups);
    memcpy(op->bufs, bufs, (size_t)n_bufs * sizeof *bufs);
    memcpy(op->args, args, args_size);
    op->group = group;
    op->n_bufs = n_bufs;
    op->args_size = args_size;
    return INFER_OK;
}
static infer_result rec_copy(void *queue, uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                             uint64_t bytes, infer_error *err) {
    CHECK(!rec.now); /* pages are copied before a pass */
    return rec.base->copy(queue, to, to_offset, from, from_offset, bytes, err);
}
static infer_result rec_upload(void *queue, uint64_t to, uint64_t offset, const void *src, uint64_t bytes,
                               infer_error *err) {
    CHECK(!rec.now);
    return rec.base->upload(queue, to, offset, src, bytes, err);
}
static infer_result rec_download(void *queue, uint64_t from, uint64_t offset, void *dst, uint64_t bytes,
                                 infer_error *err) {
    CHECK(!rec.now);
    return rec.base->download(queue, from, offset, dst, bytes, err);
}
static infer_result rec_sync(void *queue, infer_error *err) {
    CHECK(!rec.now);
    return rec.base->sync(queue, err);
}
static infer_result rec_record(void *queue, infer_error *err) {
    infer_result r = rec_fails(&rec.fail_record, err, "record");
    (void)queue;
    CHECK(!rec.now);
    rec.records++;
    if (!r) rec.now = (rec_list *)calloc(1, sizeof *rec.now);
    return r;
}
static infer_result rec_end(void *queue, void **recording, infer_error *err) {
    infer_result r = rec_fails(&rec.fail_end, err, "record_end");
    (void)queue;
    CHECK(rec.now != NULL);
    rec.ends++;
    if (r) free(rec.now);
    else rec.open++;
    *recording = r ? (void *)&rec : (void *)rec.now;
    rec.now = NULL;
    return r;
}
static infer_result rec_replay(void *queue, void *recording, infer_error *err) {
    rec_list *list = (rec_list *)recording;
    infer_result r = rec_fails(&rec.fail_replay, err, "replay");
    int32_t i;
    rec.replays++;
    for (i = 0; i < list->n && !r; i++) {
        const rec_op *op = &list->ops[i];
        r = rec.base->launch(queue, op->kernel, op->groups, op->group, op->bufs, op->n_bufs, op->args, op->args_size, err);
    }
    return r;
}
static void rec_close(void *queue, void *recording) {
    (void)queue;
    rec.open--;
    free(recording);
}

/* From now on the model's contexts record. */
static void rec_begin(infer_model *m) {
    memset(&rec, 0, sizeof rec);
    rec.base = m->devices[0].gpu->driver;
    rec.driver = *rec.base;
    rec.driver.launch = rec_launch;
    rec.driver.copy = rec_copy;
    rec.driver.upload = rec_upload;
    rec.driver.download = rec_download;
    rec.driver.sync = rec_sync;
    rec.driver.record = rec_record;
    rec.driver.record_end = rec_end;
    rec.driver.replay = rec_replay;
    rec.driver.recording_close = rec_close;
    m->devices[0].gpu->driver = &rec.driver;
}

typedef struct rec_pair {
    infer_model *cpu, *gpu;
    infer_session *a, *b; /* on the CPU, on the device */
    int32_t n_vocab;
    int waits; /* 1: the eval copies a page that it shares, or its logits are fetched after it: one more wait */
} rec_pair;

static int rec_open(rec_pair *p, int32_t layers) {
    const char *path = check_data("models/stories260K.F32.gguf");
    const infer_token id = 1;
    memset(p, 0, sizeof *p);
    p->cpu = gpu_open(path, INFER_CPU, 0);
    p->gpu = gpu_open(path, check_backend(), layers);
    if (!p->cpu || !p->gpu) return 0;
    p->n_vocab = p->cpu->hp.n_vocab;
    rec_begin(p->gpu);
    p->a = arch_session(p->cpu, 2, 0);
    p->b = arch_session(p->gpu, 2, 0);
    if (!p->a || !p->b) return 0;
    /* once all logits were asked for, they come with each eval: from here on passes are alike */
    CHECK(infer_session_eval(p->b, &id, 1) == INFER_OK && infer_session_logits(p->b, -1));
    CHECK(infer_session_rewind(p->b, 0) == INFER_OK);
    return 1;
}

static void rec_shut(rec_pair *p) {
    infer_session_destroy(p->a);
    infer_session_destroy(p->b);
    CHECK(rec.open == 0 && rec.now == NULL);
    CHECK(infer_model_close(p->cpu) == INFER_OK);
    CHECK(infer_model_close(p->gpu) == INFER_OK);
}

/* n ids on both: the same logits. Gives the launches. */
static uint64_t rec_eval(rec_pair *p, const infer_token *ids, int32_t n, const char *how) {
    infer_stats st;
    CHECK(infer_session_eval(p->a, ids, n) == INFER_OK);
    CHECK(infer_session_eval(p->b, ids, n) == INFER_OK);
    gpu_close_to(how, infer_session_logits(p->b, -1), infer_session_logits(p->a, -1), (size_t)p->n_vocab);
    CHECK(infer_session_stats(p->b, &st) == INFER_OK);
    check_detail = how;
    CHECK(st.syncs == 1 + (uint64_t)p->waits);
    return st.launches;
}

static void test_gpu_record(void) {
    rec_pair p;
    infer_session *t = NULL, *u = NULL;
    infer_token ids[64];
    infer_error e;
    uint64_t first, again;
    int32_t i;
    GPU_NEEDED();
    for (i = 0; i < 64; i++) ids[i] = 3 + i * 7;
    if (!rec_open(&p, 99)) return;
    rec_eval(&p, ids, 20, "a prompt");
    CHECK(rec.records == 0);
    first = rec_eval(&p, ids, 1, "first");
    CHECK(rec.records == 0 && rec.replays == 0);
    again = rec_eval(&p, ids + 1, 1, "recorded");
    CHECK(rec.records == 1 && rec.ends == 1 && rec.replays == 1 && again == first);
    for (i = 2; i < 30; i++) /* over borders of pages */
        CHECK(rec_eval(&p, ids + i, 1, "replayed") == first);
    CHECK(rec.records == 1 && rec.replays == 29);
    rec_eval(&p, ids, 3, "another shape");
    rec_eval(&p, ids + 3, 3, "another shape again");
    CHECK(rec.records == 2);
    CHECK(infer_session_rewind(p.a, 30) == INFER_OK && infer_session_rewind(p.b, 30) == INFER_OK);
    rec_eval(&p, ids + 5, 1, "after rewind");
    CHECK(rec.records == 2 && rec.replays == 31);
    CHECK(infer_session_fork(&t, p.a, &e) == INFER_OK && infer_session_fork(&u, p.b, &e) == INFER_OK);
    p.waits = 1;
    rec_eval(&p, ids + 6, 1, "after fork");
    if (t && u) {
        infer_session *x = p.a, *y = p.b;
        p.a = t;
        p.b = u;
        rec_eval(&p, ids + 9, 1, "the fork");
        p.waits = 0;
        p.a = x;
        p.b = y;
    }
    for (i = 0; i < 12; i++) rec_eval(&p, ids, 1 + i / 2, "more shapes than are kept");
    CHECK(rec.open <= INFER__GPU_RECORDINGS);
    infer_session_destroy(t);
    infer_session_destroy(u);
    rec_shut(&p);
    if (!rec_open(&p, 3)) return; /* a pass over the CPU and a device is not recorded */
    for (i = 0; i < 4; i++) rec_eval(&p, ids + i, 1, "half the layers");
    CHECK(rec.records == 0);
    rec_shut(&p);
}

/* Whatever fails, no result is wrong, and the session goes on. */
static void test_gpu_record_faults(void) {
    rec_pair p;
    infer_token ids[8] = { 5, 9, 13, 2, 77, 31, 8, 100 };
    uint64_t launches;
    int32_t i;
    GPU_NEEDED();
    if (!rec_open(&p, 99)) return;
    launches = rec_eval(&p, ids, 1, "first");
    rec.fail_record = 1;
    rec_eval(&p, ids + 1, 1, "the driver does not record");
    CHECK(rec.records == 1 && rec.ends == 0);
    rec_eval(&p, ids + 2, 1, "and is not asked again");
    CHECK(rec.records == 1 && rec.replays == 0);
    rec_shut(&p);
    if (!rec_open(&p, 99)) return;
    rec_eval(&p, ids, 1, "first");
    rec.fail_end = 1;
    CHECK(rec_eval(&p, ids + 1, 1, "what was recorded cannot be kept") == launches);
    CHECK(rec_eval(&p, ids + 2, 1, "nor later") == launches);
    CHECK(rec.records == 1 && rec.ends == 1 && rec.replays == 0);
    rec_shut(&p);
    if (!rec_open(&p, 99)) return;
    for (i = 0; i < 3; i++) rec_eval(&p, ids + i, 1, "recorded");
    rec.fail_replay = 1;
    CHECK(infer_session_eval(p.b, ids + 3, 1) == INFER_ERR_DEVICE);
    CHECK_HAS(infer_session_error(p.b)->message, "replay was made to fail");
    CHECK(infer_session_position(p.b) == 3);
    rec_eval(&p, ids + 3, 1, "after a replay that failed");
    rec_shut(&p);
    for (i = 1; i < (int32_t)launches; i += 7) { /* a launch fails while the pass is recorded */
        if (!rec_open(&p, 99)) return;
        rec_eval(&p, ids, 1, "first");
        rec.fail_launch = i;
        CHECK(infer_session_eval(p.b, ids + 1, 1) == INFER_ERR_DEVICE && rec.open == 0);
        rec.fail_launch = 0;
        rec_eval(&p, ids + 1, 1, "after a launch that failed");
        rec_eval(&p, ids + 2, 1, "recorded after all");
        CHECK(rec.open == 1);
        rec_shut(&p);
    }
}

/* What a traced or profiled pass needs is not in a recording. */
static void rec_seen(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    (void)layer; (void)step; (void)x; (void)rows; (void)cols;
    ++*(int *)user;
}
static void test_gpu_record_apart(void) {
    rec_pair p;
    infer_session_params sp;
    infer_token id = 9;
    infer_error e;
    int seen = 0, i, before = 0;
    GPU_NEEDED();
    if (!rec_open(&p, 99)) return;
    infer_session_destroy(p.b);
    memset(&sp, 0, sizeof sp);
    sp.context = 64;
    sp.trace = rec_seen;
    sp.trace_user = &seen;
    CHECK(infer_session_create(&p.b, p.gpu, &sp, &e) == INFER_OK);
    for (i = 0; i < 4 && p.b; i++) {
        CHECK(infer_session_eval(p.b, &id, 1) == INFER_OK && seen > before);
        before = seen;
    }
    CHECK(rec.records == 0);
    rec_shut(&p);
}

/* The device's own times: one wait a pass, and no more time than passed. */
static void test_gpu_profile(void) {
    infer_model *m;
    infer_session *s = NULL;
    infer_session_params sp;
    infer_profile_row rows[32];
    infer_stats st;
    infer_error e;
    infer_token ids[8] = { 5, 9, 13, 2, 77, 31, 8, 100 };
    int32_t n = 0, i, layers;
    double began, all, sum = 0;
    uint64_t matmuls = 0;
    GPU_NEEDED();
    m = gpu_open(check_data("models/stories260K.F32.gguf"), check_backend(), 99);
    if (!m) return;
    layers = m->hp.n_layer;
    memset(&sp, 0, sizeof sp);
    sp.context = 64;
    sp.own.profile = 1;
    CHECK(infer_session_create(&s, m, &sp, &e) == INFER_OK);
    if (s) {
        int timed = m->devices[0].gpu->driver->timing != NULL;
        began = infer__seconds();
        for (i = 0; i < 5; i++) {
            CHECK(infer_session_eval(s, ids, i == 0 ? 8 : 1) == INFER_OK);
            CHECK(infer_session_stats(s, &st) == INFER_OK);
            CHECK(timed ? st.syncs == 1 : st.syncs > 1);
        }
        all = infer__seconds() - began;
        CHECK(infer_session_profile(s, rows, 32, &n) == INFER_OK && n > 4);
        for (i = 0; i < n && i < 32; i++) {
            CHECK(rows[i].calls > 0 && rows[i].seconds > 0);
            sum += rows[i].seconds;
            if (strcmp(rows[i].op, "matmul") == 0) matmuls = rows[i].calls;
        }
        CHECK(sum > 0 && sum <= all);
        CHECK(matmuls == 5u * (4u * (unsigned)layers + 1u));
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}
