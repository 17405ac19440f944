/* test_gpu_model_faults.c: a model's life on a device in which one call or one allocation fails: the right error, nothing
 * leaked, and what is left still works. */

/* Every call of OpenCL in a model's life fails once: the right error, nothing leaked, and what is left still works. */
static infer_result gpu_fault_scenario(float *logits, infer_error *e) {
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_session *s = NULL, *t = NULL;
    infer_token ids[3] = { 1, 9, 20 };
    state_bytes b;
    infer_result r;
    const float *got = NULL;
    int again;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    mp.backend = check_backend();
    mp.gpu_layers = 3;
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    p.context = 32;
    p.own.threads = 1;
    r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, e);
    if (r) return r;
    r = infer_session_create(&s, m, &p, e);
    for (again = 0; s && again < 2; again++) { /* after a failure the session stands where it stood, and goes on */
        int32_t at = infer_session_position(s);
        r = infer_session_eval(s, ids, 3);
        if (!r) break;
        *e = *infer_session_error(s);
        CHECK(infer_session_position(s) == at);
        if (again) CHECK(!"evaluates after one failure");
    }
    if (s && !r) {
        memset(&b, 0, sizeof b);
        r = infer_session_save(s, state_write, &b);
        if (!r) r = infer_session_load(s, state_read, &b);
        if (r) *e = *infer_session_error(s);
        free(b.p);
    }
    if (s && !r) r = infer_session_fork(&t, s, e);
    if (t && (r = infer_session_eval(t, ids, 1)) != INFER_OK) {
        *e = *infer_session_error(t);
        CHECK(infer_session_position(t) == 3);
        CHECK(infer_session_eval(t, ids, 1) == INFER_OK);
        CHECK_STR(infer_session_error(t)->message, "");
    }
    for (again = 0; t && !got && again < 2; again++) { /* they come down here: a failure says so, and then they do */
        infer_token token;
        infer_result one = infer_session_sample(t, NULL, -1, &token);
        got = one == INFER_OK ? infer_session_logits(t, -1) : NULL;
        if (!got && !r) {
            *e = *infer_session_error(t);
            r = e->code;
        }
        if (again && !got) CHECK(!"samples after one failure");
    }
    if (got) memcpy(logits, got, (size_t)m->hp.n_vocab * sizeof *logits);
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return r;
}

/* A model's life in which calls may fail: the result, and the last logits when it came to them. */
typedef infer_result (*gpu_scenario)(float *logits, infer_error *e);

/* Calls of OpenCL fail one at a time: the first `close` in steps of `near_step`, later ones in steps of `far_step`.
 * Returns how often the scenario failed. */
static int gpu_fault_rounds(gpu_scenario run, int close_calls, int near_step, int far_step) {
    static float want[512], got[512];
    infer_error e;
    int kind, failures = 0, round = 0;
    check_fail_at = check_live = 0;
    ocl_wrap();
    ocl_count();
    CHECK(run(want, &e) == INFER_OK);
    CHECK(ocl_calls > close_calls);
    for (ocl_fail_at = 1; check_bad < 5; ocl_fail_at += (ocl_fail_at < close_calls ? near_step : far_step) * gpu_cases_every()) {
        infer_result r;
        memset(&e, 0, sizeof e);
        memset(got, 0, sizeof got);
        ocl_count();
        ocl_fail_code = round++ & 1 ? -4 : -5;
        r = run(got, &e);
        check_detail = ocl_failed ? ocl_failed : "no call";
        for (kind = 0; kind < OCL_KINDS; kind++) CHECK(ocl_live[kind] == 0);
        CHECK(check_live == 0);
        if (ocl_calls < ocl_fail_at) break;
        if (r) {
            failures++;
            CHECK(r == INFER_ERR_DEVICE || r == INFER_ERR_MEMORY);
            CHECK_HAS(e.message, ocl_failed);
        }
        if (got[0] != 0) CHECK(check_nmse(got, want, 512) <= GPU_LIMIT);
    }
    ocl_fail_at = 0;
    ocl_unwrap();
    return failures;
}

static void test_gpu_model_faults(void) {
    GPU_NEEDED();
    /* while it opens; an eval that fails is followed by one that does not; launches are much alike */
    CHECK(gpu_fault_rounds(gpu_fault_scenario, 150, 1, 11) > 100 / gpu_cases_every());
}

/* Weights leave the device and come back, with a session that is saved meanwhile; after a failure the same again succeeds. */
static infer_result gpu_release_scenario(float *logits, infer_error *e) {
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_token ids[3] = { 1, 9, 20 };
    state_bytes b;
    infer_error late;
    infer_result r, again;
    uint64_t bytes;
    int buffers;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    memset(&b, 0, sizeof b);
    mp.backend = check_backend();
    mp.no_mmap = 1;
    mp.gpu_layers = 99; /* not fewer after a failure */
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    p.context = 32;
    p.own.threads = 1;
    r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, e);
    if (r) return r;
    r = infer_session_create(&s, m, &p, e);
    if (!r && ((r = infer_session_eval(s, ids, 2)) != INFER_OK || (r = infer_session_save(s, state_write, &b)) != INFER_OK))
        *e = *infer_session_error(s);
    if (s) {
        CHECK(infer_model_offload(m, &late) == INFER_ERR_STATE);
        CHECK_HAS(late.message, "there are contexts");
    }
    infer_session_destroy(s);
    s = NULL;
    bytes = m->device_bytes;
    buffers = ocl_live[OCL_BUFFER];
    CHECK(bytes > 500000);
    if (infer_model_offload(m, &late)) check_note(__FILE__, __LINE__, late.message);
    CHECK(m->device_bytes == 0);
    CHECK(buffers == 0 || ocl_live[OCL_BUFFER] < buffers);
    CHECK(infer_session_create(&s, m, &p, &late) == INFER_ERR_STATE);
    CHECK_HAS(late.message, "offloaded");
    if (!r && (r = infer_model_reload(m, e)) != INFER_OK) {
        CHECK(m->device_bytes == 0 && infer_session_create(&s, m, &p, &late) == INFER_ERR_STATE);
        again = infer_model_reload(m, &late);
        CHECK(again == INFER_OK);
    }
    if (!r) {
        CHECK(m->device_bytes == bytes && ocl_live[OCL_BUFFER] == buffers);
        r = infer_session_create(&s, m, &p, e);
    }
    if (s && !r && ((r = infer_session_load(s, state_read, &b)) != INFER_OK || (r = infer_session_eval(s, ids + 2, 1)) != INFER_OK))
        *e = *infer_session_error(s);
    if (s && !r && infer_session_logits(s, -1)) memcpy(logits, infer_session_logits(s, -1), (size_t)m->hp.n_vocab * sizeof *logits);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
    return r;
}

static infer_result gpu_oom_scenario(float *logits, infer_error *e) {
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_session *s = NULL, *t = NULL;
    infer_token ids[3] = { 1, 9, 20 };
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    mp.backend = check_backend();
    mp.gpu_layers = 2;
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    p.context = 32;
    p.own.threads = 1;
    r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, e);
    if (r) CHECK(m == NULL && e->code == r);
    if (!r) r = infer_session_create(&s, m, &p, e);
    if (!r && (r = infer_session_eval(s, ids, 3)) != INFER_OK) *e = *infer_session_error(s);
    if (!r) r = infer_session_fork(&t, s, e);
    if (!r && (r = infer_session_eval(t, ids, 1)) != INFER_OK) *e = *infer_session_error(t);
    (void)logits;
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return r;
}

/* Every `step`-th allocation of the host fails once. */
static void gpu_oom_rounds(gpu_scenario run, int step) {
    static float logits[512];
    infer_error e;
    long total, i;
    memset(&e, 0, sizeof e);
    check_fail_at = check_allocs = check_live = 0;
    CHECK(run(logits, &e) == INFER_OK);
    CHECK(check_live == 0);
    total = check_allocs;
    CHECK(total > 20);
    for (i = 1; i <= total && check_bad < 5; i += step) {
        infer_result r;
        check_allocs = check_live = 0;
        check_fail_at = i;
        memset(&e, 0, sizeof e);
        r = run(logits, &e);
        CHECK(r == INFER_ERR_MEMORY || r == INFER_OK);
        if (r) CHECK(e.message[0]);
        CHECK(check_live == 0);
        if (check_bad) fprintf(stderr, "allocation %ld of %ld\n", i, total);
    }
    check_fail_at = 0;
}

static void test_gpu_model_release(void) {
    GPU_NEEDED();
    if (check_backend() == INFER_OPENCL) CHECK(gpu_fault_rounds(gpu_release_scenario, 150, 3, 11) > 20 / gpu_cases_every());
    gpu_oom_rounds(gpu_release_scenario, 3);
}

static void test_gpu_model_oom(void) {
    GPU_NEEDED();
    gpu_oom_rounds(gpu_oom_scenario, 1);
}
