/* test_gpu_stack.c: encoders of pictures and sound on a device, against the CPU's exact results; what devices have no kernels for runs
 * on the CPU. Uses test_stack.c and test_gpu_models.c. */

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

/* layers: that the device must have, -1 = all. */
static void gpu_stack_run(const char *file, const char *name, int32_t kind, int32_t layers) {
    infer_model *cpu, *gpu;
    stack_entry x;
    int32_t i, bad = 0;
    check_detail = name;
    CHECK(stack_entry_open(name, 0, kind == INFER__STACK_AUDIO, &x));
    cpu = gpu_stack_open(file, kind, INFER_CPU);
    gpu = gpu_stack_open(file, kind, check_backend());
    if (cpu && gpu && x.in) {
        float *want = stack_run(cpu, &x, 1), *got = stack_run(gpu, &x, 2);
        if (getenv("CHECK_VERBOSE")) printf("%s: %d of %d layers\n", name, (int)gpu->device_layers, (int)gpu->hp.n_layer);
        CHECK(gpu->device_layers == (layers < 0 ? gpu->hp.n_layer : layers));
        if (want && got) gpu_close_to("embeddings", got, want, (size_t)x.tokens * (size_t)x.cols);
        for (i = 0; want && got && i < x.tokens * x.cols; i++) bad += want[i] != 0 && got[i] == 0;
        CHECK(bad == 0);
        free(want);
        free(got);
    }
    CHECK(infer_model_close(cpu) == INFER_OK && infer_model_close(gpu) == INFER_OK);
    stack_entry_close(&x);
}

static void test_gpu_stack(void) {
    static const struct { const char *file, *name; int32_t kind, layers; } cases[] = {
        { "gemma3", "gemma3_gradient-64x48", INFER__STACK_VISION, -1 },
        { "gemma3-f16", "gemma3-f16_text-200x120", INFER__STACK_VISION, -1 },
        { "llava-cls", "llava-cls_checker-20x20", INFER__STACK_VISION, -1 },
        { "idefics3", "idefics3_checker-20x20", INFER__STACK_VISION, -1 },
        { "internvl", "internvl_gradient-32x32", INFER__STACK_VISION, -1 },
        { "cogvlm", "cogvlm_gradient-56x56", INFER__STACK_VISION, -1 },
        { "lfm2", "lfm2_noise-37x91", INFER__STACK_VISION, -1 },
        { "minicpmv", "minicpmv_gradient-56x56", INFER__STACK_VISION, -1 },
        { "gemma4uv", "gemma4uv_noise-37x91", INFER__STACK_VISION, -1 },
        { "qwen2vl", "qwen2vl_checker-20x20", INFER__STACK_VISION, 0 },
        { "qwen25vl", "qwen25vl_checker-20x20", INFER__STACK_VISION, 0 },
        { "qwen3vl", "qwen3vl_noise-37x91", INFER__STACK_VISION, 0 },
        { "pixtral", "pixtral_noise-37x91", INFER__STACK_VISION, 0 },
    };
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    GPU_NEEDED();
    for (i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!getenv("STACK_ONLY") || strstr(cases[i].name, getenv("STACK_ONLY")))
            gpu_stack_run(cases[i].file, cases[i].name, cases[i].kind, cases[i].layers);
}

static void suite_gpu_stack(void) { RUN_DEVICE(test_gpu_stack); }
