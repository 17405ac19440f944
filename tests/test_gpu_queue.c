/* test_gpu_queue.c: a queue on a device, for every kind of state: shared beginnings, slices, drafts; what is chosen has the CPU's
 * probabilities (last bits depend on how many tokens a pass has: where two tokens are about as likely, texts may part). */

static void gpu_queue_go(infer_model *m, queue_out *out) {
    static const queue_way way = { 3, 16, 0, 4, 0, 0, 0 };
    infer_queue *q = queue_open(m, &way);
    infer_request *r[QUEUE_N];
    infer_queue_stats stats;
    infer_error e;
    infer_token ids[256];
    int32_t k;
    for (k = 0; k < QUEUE_N && q; k++) {
        infer_request_params p;
        memset(&p, 0, sizeof p);
        p.tokens = ids;
        p.n_tokens = queue_prompt(ids, k, 60);
        p.generate = queue_generate(k, 1, &out[k]);
        p.generate.text = NULL;
        p.generate.logprobs = 1;
        if (infer_queue_submit(q, &p, &r[k], &e)) check_note(__FILE__, __LINE__, e.message);
    }
    while (q && infer_queue_step(q, 1) == INFER_MORE) {}
    for (k = 0; k < QUEUE_N && q; k++) {
        CHECK(infer_request_wait(r[k]) == INFER_OK);
        CHECK_STR(infer_request_error(r[k])->message, "");
        infer_request_close(r[k]);
    }
    CHECK(infer_queue_get_stats(q, &stats) == INFER_OK && stats.reused >= 60 * (QUEUE_N - 1));
    CHECK(infer_queue_destroy(q) == INFER_OK);
}

static void gpu_queue(const char *name, int32_t layers) {
    char path[128];
    infer_model *m[2];
    queue_out *out[2];
    int32_t k, i, same = 0, all = 0;
    snprintf(path, sizeof path, "archs/%s.gguf", name);
    m[0] = gpu_open(check_data(path), INFER_CPU, 0);
    m[1] = gpu_open(check_data(path), check_backend(), layers);
    for (i = 0; i < 2; i++) {
        out[i] = (queue_out *)calloc(QUEUE_N, sizeof **out);
        if (m[i]) gpu_queue_go(m[i], out[i]);
        check_detail = name;
    }
    for (k = 0; k < QUEUE_N; k++) {
        CHECK(out[1][k].n == out[0][k].n && out[0][k].n > 0);
        for (i = 0; i < out[0][k].n && out[0][k].tokens[i] == out[1][k].tokens[i]; i++)
            CHECK(fabs(out[0][k].logprobs[i] - out[1][k].logprobs[i]) < 2e-3);
        same += i;
        all += out[0][k].n;
    }
    CHECK(2 * same > all);
    for (i = 0; i < 2; i++) {
        free(out[i]);
        CHECK(infer_model_close(m[i]) == INFER_OK);
    }
}

static void test_gpu_queue(void) {
    size_t i;
    GPU_NEEDED();
    for (i = 0; i < INFER__COUNT(queue_files); i += (size_t)check_every(5)) {
        gpu_queue(queue_files[i], 0);
        if (i % 3 == 0) gpu_queue(queue_files[i], 1); /* one layer there: slices on the CPU */
    }
}

/* Blocks that predict are on the device behind all layers, on the second one behind layers of two, or on the CPU behind one of them
 * that is there. */
static void gpu_nextn(unsigned char *image, size_t n) {
    draft_out *got = (draft_out *)calloc(1, sizeof *got), *alone = (draft_out *)calloc(1, sizeof *alone);
    int32_t how;
    for (how = 0; image && how < 4; how++) { /* all; one; all, and one, over two devices */
        const int32_t layers = how & 1, two = how >> 1;
        infer_model_params p;
        infer_model *m;
        infer_generate_info info;
        memset(&p, 0, sizeof p);
        p.mtp = 1;
        p.exact = 1;
        p.backend = check_backend();
        p.gpu_layers = layers;
        if (two && !places_two(p.devices)) break;
        if (two) p.shares[0] = p.shares[1] = 1;
        if ((m = nextn_open(image, n, &p)) == NULL) continue;
        CHECK(m->n_devices == 1 + two && (!two || layers || (m->devices[0].n_layers > 0 && m->devices[1].n_layers > 0)));
        CHECK(m->layers[m->hp.n_layer].place == (layers ? INFER__ON_CPU : INFER__ON_DEVICE + two));
        info = draft_go(m, NULL, 4, 0, 60, NULL, got);
        CHECK(got->n == 60 && info.drafted > 40 && info.accepted > info.drafted * 9 / 10);
        if (how == 0) memcpy(alone, got, sizeof *got);
        else if (layers == 0) CHECK(memcmp(got->tokens, alone->tokens, 60 * sizeof *got->tokens) == 0); /* the same bits on each device */
        if (layers == 0) { /* memory as predicted; the blocks leave and come back */
            infer_context *c = NULL;
            infer_memory memory;
            infer_error e;
            CHECK(infer_context_create(&c, m, NULL, &e) == INFER_OK && infer_context_memory(c, &memory) == INFER_OK);
            CHECK(memory.device > 0 && infer__gpu_used(m->devices[0].gpu) + (two ? infer__gpu_used(m->devices[1].gpu) : 0) == memory.device);
            CHECK(infer_context_destroy(c) == INFER_OK);
            CHECK(infer_model_offload(m, &e) == INFER_OK && infer_model_reload(m, &e) == INFER_OK);
            info = draft_go(m, NULL, 4, 0, 60, NULL, got);
            CHECK(got->n == 60 && info.accepted > info.drafted * 9 / 10);
        }
        CHECK(infer_model_close(m) == INFER_OK);
    }
    free(image);
    free(got);
    free(alone);
}
static void test_gpu_nextn(void) {
    size_t n = 0, i;
    unsigned char *image;
    GPU_NEEDED();
    image = nextn_right("glm4moe-nextn-moe", &n);
    gpu_nextn(image, n);
    for (i = 0; i < INFER__COUNT(chain_files) && check_reference("archs"); i += (size_t)check_every(2)) {
        image = chain_image(&chain_files[i], 3, CHAIN_RIGHT, &n);
        gpu_nextn(image, n);
    }
}

static void suite_gpu_queue(void) {
    RUN_DEVICE(test_gpu_queue);
    RUN_DEVICE(test_gpu_nextn);
}
