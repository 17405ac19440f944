/* test_stack_sound.c: encoders of sound: recorded embeddings, bad files and sizes, failing allocations. After
 * test_stack.c. */

/* Projector files of sound, and recorded sounds of each. */
static const char *const STACK_SOUNDS[][2] = {
    { "glma", "sweep-40000" },
    { "mixed", "noise-9000" },
    { "musicflamingo", "noise-20011" },
    { "qwen2a", "tones-56123" },
    { "qwen3a", "sweep-40000 tones-1700" },
    { "ultravox", "sweep-40000" },
    { "voxtral", "noise-20011" },
};

static void test_stack_sounds(void) {
    stack_cases(STACK_SOUNDS, sizeof STACK_SOUNDS / sizeof *STACK_SOUNDS, INFER__STACK_AUDIO);
}

/* Open a projector file of sound with a name or a text replaced by one as long, or the int32 after a key by `value`. */
static infer_result stack_altered(const char *file, const char *from, const char *to, int32_t value, infer_error *e) {
    size_t size = 0, i, n = strlen(from);
    infer_model *m = NULL;
    infer_result r;
    char *data;
    int found = 0;
    data = check_read(stack_path(file), &size);
    for (i = 0; data && i + n + 8 <= size; i++) {
        if (memcmp(data + i, from, n) != 0) continue;
        found = 1;
        if (to) memcpy(data + i, to, n);
        else memcpy(data + i + n + 4, &value, 4);
    }
    CHECK(found && (!to || strlen(to) == n));
    r = stack_memory(&m, INFER__STACK_AUDIO, data, size, e);
    CHECK(infer_model_close(m) == INFER_OK);
    free(data);
    return r;
}

static void test_stack_sound_files(void) {
    static const struct { const char *file, *from, *to; int32_t value; const char *says; } t[] = {
        { "ultravox", "ultravox", "ultravax", 0, "projector type \"ultravax\" is not supported" },
        { "ultravox", "a.conv1d.2.bias", "a.conv1d.2.bios", 0, "missing tensor a.conv1d.2.bias" },
        { "ultravox", "a.conv1d.1.weight", "a.conv1d.9.weight", 0, "missing tensor a.conv1d.1.weight" },
        { "ultravox", "a.position_embd", "a.position_amba", 0, "missing tensor a.position_embd.weight" },
        { "ultravox", "a.blk.1.attn_q.bias", "a.blk.1.attn_q.bios", 0, "a.blk.1.attn_q.bi" },
        { "ultravox", "a.blk.1.ln1.bias", "a.blk.1.ln1.bios", 0, "a.blk.1.ln1.bi" },
        { "ultravox", "mm.a.norm_mid.weight", "mm.a.norm_max.weight", 0, "missing tensor mm.a.norm_mid.weight" },
        { "ultravox", "clip.audio.num_mel_bins", "clip.audio.num_mel_bans", 0, "clip.audio.num_mel_bins" },
        { "ultravox", "clip.audio.num_mel_bins", NULL, 0, "clip.audio.num_mel_bins" },
        { "ultravox", "clip.audio.num_mel_bins", NULL, 79, "tensor a.conv1d.1.weight" },
        { "ultravox", "clip.audio.projector.stack_factor", NULL, 0, "clip.audio.projector.stack_factor" },
        { "ultravox", "clip.audio.projector.stack_factor", NULL, 7, "tensor mm.a.norm_pre.weight" },
        { "ultravox", "projector.stack_factor", "projector.stick_factor", 0, "stack_factor" },
        { "ultravox", "clip.audio.projection_dim", NULL, 63, "clip.audio.projection_dim is 63" },
        { "ultravox", "general.name", "clip.audio.x", 0, "clip.audio.x" },
        { "voxtral", "a.blk.0.attn_q.bias", "a.blk.0.attn_k.bios", 0, "a.blk.0.attn_" },
        { "qwen2a", "mm.a.fc.bias", "mm.a.fc.bios", 0, "missing tensor mm.a.fc.bias" },
        { "glma", "v.eoi", "v.eoj", 0, "missing tensor v.eoi" },
        { "qwen3a", "a.conv2d.3.bias", "a.conv2d.4.bias", 0, "missing tensor a.conv2d.3.bias" },
        { "qwen3a", "clip.audio.num_mel_bins", NULL, 136, "tensor a.conv_out.weight" },
        { "mixed", "clip.audio.projector_type", "clip.audio.projector_tape", 0, "clip.audio.projector_type" },
    };
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        infer_error e;
        memset(&e, 0, sizeof e);
        check_detail = t[i].says;
        CHECK(stack_altered(t[i].file, t[i].from, t[i].to, t[i].value, &e) != INFER_OK);
        if (!strstr(e.message, t[i].says)) check_note(__FILE__, __LINE__, e.message);
    }
}

static void test_stack_sound_sizes(void) {
    static const struct { const char *file; int32_t frames, bins; const char *says; } t[] = {
        { "ultravox", 3000, 128, "a spectrogram of 128 bins: the model reads 80" },
        { "ultravox", 0, 80, "a sound of 0 frames" },
        { "ultravox", -2, 80, "a sound of -2 frames" },
        { "ultravox", 2999, 80, "multiples of 2" },
        { "ultravox", 3002, 80, "learned 1500 positions" },
        { "ultravox", INT32_MAX - 1, 80, "below 2^20" },
        { "ultravox", 2, 80, "too short" },
        { "qwen3a", 150, 128, "multiples of 100" },
        { "qwen3a", 100, 80, "a spectrogram of 80 bins: the model reads 128" },
    };
    infer_error e;
    infer_context *c = NULL;
    float values[4] = { 0, 0, 0, 0 }, out[4];
    infer_model *m;
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        m = stack_model(t[i].file, INFER__STACK_AUDIO, INFER_CPU_BEST);
        check_detail = t[i].says;
        CHECK(m && infer__stack_tokens(m, t[i].frames, t[i].bins, &e) == 0 && strstr(e.message, t[i].says));
        CHECK(infer__stack_context(&c, m, NULL, t[i].frames, t[i].bins, &e) == INFER_ERR_ARGUMENT && !c);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    m = stack_model("ultravox", INFER__STACK_AUDIO, INFER_CPU_BEST);
    CHECK(m && infer__stack_context(&c, m, NULL, 40, 80, &e) == INFER_OK);
    CHECK(infer__stack_encode(c, values, 80, 80, NULL, NULL, out, &e) == INFER_ERR_ARGUMENT && strstr(e.message, "has room for 20"));
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    check_detail = NULL;
}

/* Frames whose last group is filled up, and a chunk. */
static void test_stack_sound_memory(void) {
    static const struct { const char *file; int32_t frames, bins, tokens; } t[] = { { "ultravox", 44, 80, 3 }, { "qwen3a", 100, 128, 13 } };
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        float *in = (float *)calloc((size_t)t[i].frames * (size_t)t[i].bins, sizeof *in);
        stack_entry x;
        memset(&x, 0, sizeof x);
        x.in = in;
        x.width = t[i].frames;
        x.height = t[i].bins;
        x.tokens = t[i].tokens;
        x.cols = 64;
        check_detail = t[i].file;
        stack_fails(t[i].file, INFER__STACK_AUDIO, &x);
        free(in);
    }
    check_detail = NULL;
}

static void test_stack_sound_hostile(void) {
    static const char *const files[] = { "ultravox", "voxtral", "glma", "qwen3a" };
    size_t f;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (f = 0; f < sizeof files / sizeof *files; f++) stack_hostile(files[f], INFER__STACK_AUDIO);
    check_detail = NULL;
}

static void suite_stack_sound(void) {
    RUN(test_stack_sounds);
    RUN(test_stack_sound_files);
    RUN(test_stack_sound_sizes);
    RUN(test_stack_sound_memory);
    RUN(test_stack_sound_hostile);
}
