/* test_gpu_ranges.c: layers elsewhere, on devices: the same bits as all of them on one. */

static void test_gpu_ranges(void) {
    static const char *const names[] = { "llama-mixtral-moe", "gemma2-softcap-dense", "qwen35-dense", "rwkv7-small-dense",
                                         "t5-gated-dense",    "kimi-k3-moe",          "qwen4exp-moe", "graniteswitch-dense" };
    infer_model_params mp;
    size_t i;
    GPU_NEEDED();
    memset(&mp, 0, sizeof mp);
    mp.backend = check_backend();
    for (i = 0; i < sizeof names / sizeof *names; i += (size_t)check_every(3)) {
        arch_file = check_detail = names[i];
        ranges_file(arch_path("gguf"), &mp);
    }
    check_detail = "";
}

/* Some layers of each range there, the rest on the CPU; then only of one. */
static void test_gpu_ranges_partly(void) {
    static const int32_t at[] = { 0, 2, 5 }, layers[][2] = { { 1, 2 }, { 2, 1 }, { -1, 3 }, { 1, -1 } };
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params cp;
    infer_model_params mp;
    infer_memory memory;
    infer_session *s;
    infer_token ids[20];
    infer_error e;
    float want[512];
    size_t i;
    int32_t k;
    GPU_NEEDED();
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    for (i = 0; i < 20; i++) ids[i] = 5 + (infer_token)i * 11 % 400;
    for (i = 0; i <= sizeof layers / sizeof *layers && !check_bad; i++) { /* 0: all on the CPU */
        static ranges g;
        memset(&g, 0, sizeof g);
        for (g.n = 0; g.n < 2; g.n++) {
            mp.first_layer = at[g.n];
            mp.layers = at[g.n + 1] - at[g.n];
            mp.backend = i ? check_backend() : INFER_CPU;
            mp.gpu_layers = i ? layers[i - 1][g.n] : 0;
            cp.rest = g.n ? NULL : ranges_rest;
            cp.rest_user = &g;
            CHECK(infer_model_open(&g.m[g.n], path, &mp, &e) == INFER_OK);
            CHECK(g.m[g.n] && infer_context_create(&g.c[g.n], g.m[g.n], &cp, &e) == INFER_OK);
            if (!g.c[g.n]) { check_note(__FILE__, __LINE__, e.message); return; }
            CHECK(infer_model_memory(g.m[g.n], &cp, &memory, &e) == INFER_OK);
            for (k = 0; i && k < memory.n_devices; k++) CHECK(memory.devices[k].layers == layers[i - 1][g.n]);
            CHECK(memory.n_devices == (i && layers[i - 1][g.n] > 0));
        }
        CHECK(infer_session_create_in(&s, g.c[0], NULL, &e) == INFER_OK);
        CHECK(infer_session_eval(s, ids, 19) == INFER_OK && infer_session_eval(s, ids + 19, 1) == INFER_OK);
        if (i == 0) memcpy(want, infer_session_logits(s, -1), sizeof want);
        else gpu_close_to("partly", infer_session_logits(s, -1), want, 512);
        infer_session_destroy(s);
        ranges_close(&g);
    }
}

static void suite_gpu_ranges(void) {
    RUN_DEVICE(test_gpu_ranges);
    RUN_DEVICE(test_gpu_ranges_partly);
}
