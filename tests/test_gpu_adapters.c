/* test_gpu_adapters.c: adapters and control vectors on a device: all layers there and half of them, alone and in passes that have
 * rows without, against the CPU; and merged into weights that are there. */

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

/* ---- merged ------------------------------------------------------------------------------------------------------- */

/* On the device as on the CPU; without, again the bits of before; merged when it ends. `mapped` 0: the host has no weights. */
static void gpu_merge(const char *name, int32_t layers, const char *type, int mapped) {
    infer_model *of[2] = { gpu_open(check_data(name), INFER_CPU, 0), NULL };
    infer_model_params p;
    infer_adapter_use use[2][2];
    float *was[2], *got[2];
    infer_error e;
    size_t n[2];
    uint64_t device = 0, used = 0;
    int i, k;
    memset(&p, 0, sizeof p);
    p.backend = check_backend();
    p.gpu_layers = layers;
    p.exact = gpu_exact;
    p.no_mmap = !mapped;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    check_detail = name;
    if (infer_model_open(&of[1], check_data(name), &p, &e)) check_note(__FILE__, __LINE__, e.message);
    if (!of[0] || !of[1]) return;
    CHECK(of[1]->device_layers == (layers ? layers : of[1]->hp.n_layer));
    for (i = 0; i < 2; i++) {
        memset(use[i], 0, sizeof use[i]);
        use[i][0].adapter = adapter_of(of[i], "", 1);
        use[i][0].scale = 0.5f;
        use[i][1].adapter = adapter_of(of[i], "blk.1.", 2);
        use[i][1].scale = -0.7f;
        was[i] = adapter_eval(of[i], NULL, 0, &n[i]);
        device = of[i]->device_bytes;
        used = (uint64_t)infer__atomic_get(&of[i]->mem.used);
        if (infer_model_merge(of[i], use[i], 2, type, &e)) check_note(__FILE__, __LINE__, e.message);
        got[i] = adapter_eval(of[i], NULL, 0, &n[i]);
        if (i) CHECK(of[i]->device_bytes > device + device / 2 && infer_model_offload(of[i], &e) == INFER_ERR_STATE);
    }
    if (got[0] && got[1] && was[1] && n[0] == n[1]) {
        gpu_close_to("merged", got[1], got[0], n[0]);
        CHECK(check_nmse(got[0], was[0], n[0]) > 1e-4);
        free(got[1]);
        CHECK(infer_model_unmerge(of[1], &e) == INFER_OK);
        CHECK(of[1]->device_bytes == device && (uint64_t)infer__atomic_get(&of[1]->mem.used) == used);
        got[1] = adapter_eval(of[1], NULL, 0, &n[1]);
        CHECK(got[1] && memcmp(got[1], was[1], n[1] * sizeof **got) == 0);
        CHECK(infer_model_merge(of[1], use[1], 2, type, &e) == INFER_OK);
    } else CHECK(!"results");
    for (i = 0; i < 2; i++) {
        for (k = 0; k < 2; k++) CHECK(infer_adapter_close(use[i][k].adapter) == INFER_OK);
        free(got[i]);
        free(was[i]);
    }
    infer_model_close(of[0]);
    CHECK(infer_model_close(of[1]) == INFER_OK);
}

static void test_gpu_adapters_merge(void) {
    GPU_NEEDED();
    gpu_merge("archs/llama-dense.gguf", 0, NULL, 1);
    gpu_merge("archs/llama-dense.gguf", 1, "F32", 0);
    check_gpu_checked = 1; /* kernels of a type that the model has no use for are looked at */
    gpu_merge("archs/llama-dense.gguf", 0, "BF16", 0);
    check_gpu_checked = 0;
    gpu_merge("archs/qwen3moe-norm-moe.gguf", 0, "F32", 0);
    gpu_merge("archs/phi3-partial-dense.gguf", 0, NULL, 0); /* Q, K and V are one tensor */
    gpu_merge("archs/gpt2-tied-dense.gguf", 0, "F32", 0);
    gpu_merge("archs/qwen35-dense.gguf", 1, "F32", 1);
    gpu_exact = 0;
    gpu_limit = 2e-3;
    gpu_merge("models/TinyStories-656K.Q8_0.gguf", 0, NULL, 0);
    gpu_limit = GPU_LIMIT;
    gpu_exact = 1;
}

/* A merge in which a call of the device, or an allocation, fails changes nothing; afterwards it succeeds. */
static unsigned char *gpu_merge_file;
static size_t gpu_merge_size;
static infer_result gpu_merge_scenario(float *logits, infer_error *e) {
    infer_model *m = NULL;
    infer_model_params p;
    infer_adapter_use use;
    infer_error late;
    infer_result r;
    uint64_t bytes;
    memset(&p, 0, sizeof p);
    memset(&use, 0, sizeof use);
    p.backend = check_backend();
    p.no_mmap = p.gpu_unchecked = 1;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    (void)logits;
    if ((r = infer_model_open(&m, check_data("archs/llama-dense.gguf"), &p, e)) != INFER_OK) return r;
    r = infer_adapter_open_memory(&use.adapter, m, gpu_merge_file, gpu_merge_size, 0, e);
    use.scale = 1;
    bytes = m->device_bytes;
    if (!r && (r = infer_model_merge(m, &use, 1, NULL, e)) != INFER_OK) {
        CHECK(m->device_bytes == bytes && !m->merged);
        CHECK(infer_model_merge(m, &use, 1, NULL, &late) == INFER_OK);
        CHECK(m->device_bytes > bytes);
    }
    infer_adapter_close(use.adapter);
    CHECK(infer_model_close(m) == INFER_OK);
    return r;
}

static void test_gpu_adapters_merge_faults(void) {
    infer_model *m;
    gguf_writer w;
    GPU_NEEDED();
    if ((m = cache_model("llama-dense")) == NULL) return;
    adapter_head(&w, m, 2);
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.0.attn_q.weight"), 0, NULL);
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.1.ffn_down.weight"), 0, NULL);
    gpu_merge_file = gw_finish(&w, &gpu_merge_size);
    CHECK(infer_model_close(m) == INFER_OK);
    if (check_backend() == INFER_OPENCL) CHECK(gpu_fault_rounds(gpu_merge_scenario, 0, 3, 3) > 10 / gpu_cases_every());
    gpu_oom_rounds(gpu_merge_scenario, 3);
    free(gpu_merge_file);
}

static void suite_gpu_adapters(void) {
    RUN_DEVICE(test_gpu_adapters);
    RUN_DEVICE(test_gpu_adapters_merge);
    RUN_DEVICE(test_gpu_adapters_merge_faults);
}
