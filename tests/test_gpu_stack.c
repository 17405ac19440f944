/* test_gpu_stack.c: encoders of pictures on a device, against the CPU's exact results; what devices have no kernels for is
 * refused. Uses test_stack.c and test_gpu_models.c. */

static infer_model *gpu_stack_open(const char *file, int32_t kind, int32_t backend) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.backend = backend;
    p.exact = 1;
    p.gpu_unchecked = 1;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (stack_open(&m, file, kind, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

static void gpu_stack_run(const char *file, const char *name) {
    infer_model *cpu, *gpu;
    stack_entry x;
    check_detail = name;
    CHECK(stack_entry_open(name, 0, 0, &x));
    cpu = gpu_stack_open(file, INFER__STACK_VISION, INFER_CPU);
    gpu = gpu_stack_open(file, INFER__STACK_VISION, check_backend());
    if (cpu && gpu && x.in) {
        float *want = stack_run(cpu, &x, 1), *got = stack_run(gpu, &x, 2);
        CHECK(gpu->device_layers == gpu->hp.n_layer);
        if (want && got) gpu_close_to("embeddings", got, want, (size_t)x.tokens * (size_t)x.cols);
        free(want);
        free(got);
    }
    CHECK(infer_model_close(cpu) == INFER_OK && infer_model_close(gpu) == INFER_OK);
    stack_entry_close(&x);
}

/* A device that is asked for has no kernels for it: the message says for what. */
static void gpu_stack_refused(const char *file, int32_t kind, const char *what) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.backend = check_backend();
    p.gpu_unchecked = 1;
    check_detail = file;
    CHECK(stack_open(&m, file, kind, &p, &e) == INFER_ERR_UNSUPPORTED && !m);
    CHECK_HAS(e.message, what);
}

static void test_gpu_stack(void) {
    static const char *const cases[][2] = {
        { "gemma3", "gemma3_gradient-64x48" }, { "gemma3-f16", "gemma3-f16_text-200x120" }, { "llava-cls", "llava-cls_checker-20x20" },
        { "idefics3", "idefics3_checker-20x20" }, { "internvl", "internvl_gradient-32x32" }, { "cogvlm", "cogvlm_gradient-56x56" },
        { "lfm2", "lfm2_noise-37x91" }, { "minicpmv", "minicpmv_gradient-56x56" }, { "qwen2vl", "qwen2vl_checker-20x20" }, { "qwen3vl", "qwen3vl_noise-37x91" },
        { "pixtral", "pixtral_noise-37x91" }, { "llama4", "llama4_gradient-32x32" }, { "qwen25vl", "qwen25vl_blocks-300x60" },
        { "minimaxm3", "minimaxm3_noise-37x91" }, { "gemma4uv", "gemma4uv_noise-37x91" }, { "gemma4v", "gemma4v_gradient-64x48" },
    };
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    GPU_NEEDED();
    for (i = 0; i < sizeof cases / sizeof *cases; i++) gpu_stack_run(cases[i][0], cases[i][1]);
    gpu_stack_refused("qwen3a", INFER__STACK_AUDIO, "there are no GPU kernels");
    gpu_stack_refused(check_data("media/gemma3nv.gguf"), INFER__STACK_VISION, "there are no GPU kernels");
}

static void suite_gpu_stack(void) { RUN_DEVICE(test_gpu_stack); }
