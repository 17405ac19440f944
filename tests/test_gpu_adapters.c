/* test_gpu_adapters.c: adapters and control vectors on a device: all layers there and half of them, alone and in passes that have
 * rows without, against the CPU. */

static void gpu_adapter(const char *name, int32_t layers, int control) {
    infer_model *cpu = gpu_open(check_data(name), INFER_CPU, 0), *m = gpu_open(check_data(name), check_backend(), layers);
    infer_model *of[2];
    infer_adapter_use use[2];
    infer_context *c[2];
    infer_session *s[2], *t[2];
    infer_token ids[24];
    infer_step st[2];
    infer_error e;
    int i, k;
    of[0] = cpu;
    of[1] = m;
    check_detail = name;
    if (!cpu || !m) return;
    cache_ids(ids, 24, 3, cpu->hp.n_vocab);
    for (i = 0; i < 2; i++) {
        memset(use, 0, sizeof use);
        use[0].adapter = adapter_of(of[i], "", 1);
        use[0].scale = 0.5f;
        adapter_seed = 5;
        use[1].adapter = control ? adapter_control(of[i]) : adapter_of(of[i], "blk.1.", 2);
        use[1].scale = 0.7f;
        c[i] = adapter_context(of[i], 1, 64);
        s[i] = adapter_session(c[i]);
        t[i] = adapter_session(c[i]);
        CHECK(infer_session_set_adapters(s[i], use, 2) == INFER_OK);
        memset(st, 0, sizeof st);
        st[0].session = t[i];
        st[0].tokens = ids;
        st[0].n = 9;
        st[1].session = s[i];
        st[1].tokens = ids;
        st[1].n = 17;
        st[0].outputs = st[1].outputs = INFER_OUT_ALL;
        if (infer_eval(c[i], st, 2, &e)) check_note(__FILE__, __LINE__, e.message);
    }
    if (!check_bad) {
        const size_t vocab = (size_t)cpu->hp.n_vocab;
        gpu_close_to("without, beside", infer_session_logits(t[1], 0), infer_session_logits(t[0], 0), 9 * vocab);
        gpu_close_to("with", infer_session_logits(s[1], 0), infer_session_logits(s[0], 0), 17 * vocab);
        CHECK(check_nmse(infer_session_logits(s[0], 0), infer_session_logits(t[0], 0), 9 * vocab) > 1e-4);
        for (k = 17; k < 20 && !check_bad; k++) { /* token by token: passes that are recorded */
            for (i = 0; i < 2; i++) CHECK(infer_session_eval(s[i], ids + k, 1) == INFER_OK);
            gpu_close_to("a token", infer_session_logits(s[1], -1), infer_session_logits(s[0], -1), vocab);
        }
        for (k = 20; k < 23 && !check_bad; k++) { /* other adapters: no recording of before is taken */
            for (i = 0; i < 2; i++) {
                use[0] = s[i]->adapters ? s[i]->adapters->use[0] : use[0];
                use[0].scale = 0.1f * (float)(k - 20);
                CHECK(infer_session_set_adapters(s[i], use, k < 22) == INFER_OK);
                CHECK(infer_session_eval(s[i], ids + k, 1) == INFER_OK);
            }
            gpu_close_to("changed", infer_session_logits(s[1], -1), infer_session_logits(s[0], -1), vocab);
        }
    }
    for (i = 0; i < 2; i++) {
        infer__adapter_set *set = c[i]->adapter_sets;
        infer_adapter *all[4] = { NULL };
        int n = 0, j;
        for (; set; set = set->next)
            for (k = 0; k < set->n; k++) {
                for (j = 0; j < n && all[j] != set->use[k].adapter; j++) {}
                if (j == n && n < 4) all[n++] = set->use[k].adapter;
            }
        infer_session_destroy(s[i]);
        infer_session_destroy(t[i]);
        infer_context_destroy(c[i]);
        for (j = 0; j < n; j++) CHECK(infer_adapter_close(all[j]) == INFER_OK);
        CHECK(infer_model_close(of[i]) == INFER_OK);
    }
}

static void test_gpu_adapters(void) {
    GPU_NEEDED();
    gpu_adapter("archs/llama-dense.gguf", 0, 1);
    check_gpu_checked = 1; /* kernels that the model has no use for are looked at when the adapter opens */
    gpu_adapter("archs/llama-dense.gguf", 1, 1);
    check_gpu_checked = 0;
    gpu_adapter("archs/gemma3-real-dense.gguf", 0, 0);
    gpu_adapter("archs/qwen3moe-norm-moe.gguf", 0, 1);
    gpu_adapter("archs/qwen35-dense.gguf", 0, 1);
    gpu_adapter("archs/mamba2-groups-dense.gguf", 0, 0);
    gpu_exact = 0; /* norms and products in one launch: what adapters read is written all the same */
    gpu_limit = 2e-3;
    gpu_adapter("models/TinyStories-656K.Q8_0.gguf", 0, 0);
    gpu_limit = GPU_LIMIT;
    gpu_exact = 1;
}

static void suite_gpu_adapters(void) { RUN_DEVICE(test_gpu_adapters); }
